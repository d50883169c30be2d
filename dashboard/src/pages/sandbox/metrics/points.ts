/** Points of a metric as a chart takes them. Pure. */

export interface Points {
  readonly times: number[];
  readonly values: (number | null)[];
}

/** Turns pairs of a time such as `2026-11-17 09:12:00` (UTC) and a value into two lists. */
export function pointsOf(pairs: readonly (readonly unknown[])[] | undefined): Points {
  const times: number[] = [];
  const values: (number | null)[] = [];
  for (const [at, value] of pairs ?? []) {
    const seconds = secondsOf(at);
    if (Number.isNaN(seconds)) continue;
    times.push(seconds);
    values.push(typeof value === "number" && Number.isFinite(value) ? value : null);
  }
  return { times, values };
}

function secondsOf(at: unknown): number {
  if (typeof at === "number") return at;
  if (typeof at !== "string") return Number.NaN;
  const iso = /[TZ]/.test(at) ? at : `${at.replace(" ", "T")}Z`;
  return Date.parse(iso) / 1000;
}
