/** Plain sandboxes and the machines of databases. Pure. */

import type { SandboxInfo, WorkspaceEvent } from "@pandastack/sdk";

/** Which machines a page shows. Without a choice only plain sandboxes. */
export type MachineKind = "sandbox" | "database" | "all";

export const MACHINE_KINDS: readonly MachineKind[] = ["sandbox", "database", "all"];

/** Whether a sandbox is the machine of a database. */
export function isOfDatabase({ database_id }: SandboxInfo): boolean {
  return database_id !== undefined && database_id !== "";
}

/** The sandboxes of some kinds. */
export function ofKind(
  sandboxes: readonly SandboxInfo[],
  kind: MachineKind = "sandbox",
): readonly SandboxInfo[] {
  if (kind === "all") return sandboxes;
  return sandboxes.filter((one) => isOfDatabase(one) === (kind === "database"));
}

/** Plain sandboxes only, for `select` of a query. The same function each time, so that it is kept. */
export function plainOnly(sandboxes: readonly SandboxInfo[]): readonly SandboxInfo[] {
  return ofKind(sandboxes);
}

/** Whether an event is shown. What happens to a database itself is always shown. */
export function isShownEvent(event: WorkspaceEvent, kind: MachineKind = "sandbox"): boolean {
  const isOfMachine = event.database_id !== undefined && event.database_id !== "";
  const isOfBoth = event.kind.startsWith("database.");
  return kind === "all" || isOfBoth || isOfMachine === (kind === "database");
}
