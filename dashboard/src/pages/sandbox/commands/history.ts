/** Which commands are remembered, and how. Pure, apart from the storage it is given. */

export interface PastCommand {
  readonly command: string;
  readonly cwd: string;
  readonly at: string;
  /** Absent if it did not end by itself. */
  readonly exitCode?: number;
  readonly durationMs?: number;
}

const KEPT_MAX = 100;
const COMMAND_CHARS_MAX = 4_000;

// A command that names a secret stays in memory only.
const SECRETS =
  /(token|secret|passw|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|authorization|bearer|credential|:\/\/[^/\s:]+:[^/\s@]+@)/i;

/** Whether a command may be kept beyond the page. */
export function mayKeep(command: string): boolean {
  return command.length <= COMMAND_CHARS_MAX && !SECRETS.test(command);
}

function keyOf(sandboxId: string): string {
  return `pandastack-commands-${sandboxId}`;
}

/** The commands of earlier pages of this tab, newest first. */
export function loadHistory(storage: Storage, sandboxId: string): PastCommand[] {
  try {
    const list: unknown = JSON.parse(storage.getItem(keyOf(sandboxId)) ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.filter(
      (one: unknown): one is PastCommand =>
        typeof one === "object" && one !== null && typeof (one as PastCommand).command === "string",
    );
  } catch {
    return [];
  }
}

/** Keeps commands until the tab is closed: without output, and without those that name a secret. */
export function saveHistory(
  storage: Storage,
  sandboxId: string,
  list: readonly PastCommand[],
): void {
  try {
    const kept = list.filter(({ command }) => mayKeep(command)).slice(0, KEPT_MAX);
    storage.setItem(keyOf(sandboxId), JSON.stringify(kept));
  } catch {
    // Without storage the history lasts as long as the page.
  }
}

/** The next text for the arrow keys; `at` is -1 for what is being typed. */
export function recall(list: readonly { command: string }[], at: number, step: 1 | -1): number {
  return Math.min(list.length - 1, Math.max(-1, at + step));
}
