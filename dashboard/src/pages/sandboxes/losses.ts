import { plural } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { nameOf } from "./filter";

const NAMED_MAX = 5;

/** What is lost if these sandboxes are deleted, one line each. */
export function lossesOf(sandboxes: readonly SandboxInfo[]): string[] {
  const names = sandboxes.slice(0, NAMED_MAX).map((one) => nameOf(one) ?? one.id.slice(0, 8));
  const more = sandboxes.length - names.length;
  const copies = sandboxes.flatMap(copiesOf);
  const running = sandboxes.filter(({ status }) => status === "running").length;
  return [
    `Memory and disk of ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`,
    ...(running > 0
      ? [`What runs in ${plural(running, "running sandbox", "running sandboxes")}`]
      : []),
    ...(copies.length > 0 ? [`The copies of volumes ${copies.join(", ")}`] : []),
    `Their previews and code sessions. Snapshots and ${copies.length > 0 ? "other " : ""}volumes stay`,
  ];
}

/** The volumes that were copied for a sandbox, by a fork or from a snapshot. They go with it. */
function copiesOf(sandbox: SandboxInfo): string[] {
  const volumes = sandbox.volumes ?? [];
  const isFork = sandbox.metadata?.["fork_parent_id"] !== undefined;
  // Forks share what they only read.
  const copied = volumes.filter(({ read_only }) => sandbox.from_snapshot || (isFork && !read_only));
  return copied.map(({ name }) => name);
}
