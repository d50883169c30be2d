import { plural } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { nameOf } from "./filter";

const NAMED_MAX = 5;

/** What is lost if these sandboxes are deleted, one line each. */
export function lossesOf(sandboxes: readonly SandboxInfo[]): string[] {
  const names = sandboxes.slice(0, NAMED_MAX).map((one) => nameOf(one) ?? one.id.slice(0, 8));
  const more = sandboxes.length - names.length;
  const running = sandboxes.filter(({ status }) => status === "running").length;
  return [
    `Memory and disk of ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`,
    ...(running > 0
      ? [`What runs in ${plural(running, "running sandbox", "running sandboxes")}`]
      : []),
    "Their previews and code sessions. Snapshots and volumes stay",
  ];
}
