/** When a broken terminal connects again. Pure. */

export const FIRST_WAIT_MS = 500;
export const WAIT_MS_MAX = 15_000;

/** Milliseconds before a try; `tries` counts the failed ones. Spread, so that not all come at once. */
export function waitBefore(tries: number, random: number): number {
  const base = Math.min(WAIT_MS_MAX, FIRST_WAIT_MS * 2 ** Math.max(0, tries - 1));
  return Math.round(base * (0.75 + random * 0.5));
}

/** What to do after a terminal was cut, by the state of its sandbox. */
export function afterCut(status: string): "retry" | "asleep" | "paused" | "gone" {
  if (status === "hibernated" || status === "hibernating") return "asleep";
  if (status === "paused") return "paused";
  if (status === "deleted" || status === "stopping") return "gone";
  return "retry";
}

export const INPUT_KEPT_CHARS = 64 * 1024;

/** What was typed while there is no connection, up to a limit. */
export function keepInput(kept: string, data: string): string {
  return kept.length + data.length > INPUT_KEPT_CHARS ? kept : kept + data;
}
