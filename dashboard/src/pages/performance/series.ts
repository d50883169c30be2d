/** Values over time, as the charts take them. Pure. */

import type { models } from "@pandastack/sdk";

/** Times in seconds, and one list of values for each name. A missing value is null. */
export function seriesOf(
  data: models.MetricSeries | undefined,
  names: readonly string[],
): [number[], (number | null)[][]] {
  const byTime = new Map<number, (number | null)[]>();
  names.forEach((name, at) => {
    for (const [time, value] of data?.series[name] ?? []) {
      const seconds = secondsOf(time);
      const number = Number(value);
      if (seconds === undefined || value === null || !Number.isFinite(number)) continue;
      const row = byTime.get(seconds) ?? names.map(() => null);
      row[at] = number;
      byTime.set(seconds, row);
    }
  });
  const times = [...byTime.keys()].sort((a, b) => a - b);
  return [times, names.map((_, at) => times.map((time) => byTime.get(time)?.[at] ?? null))];
}

/** The server writes `2026-11-17 09:12:00` and means UTC. */
export function secondsOf(time: unknown): number | undefined {
  if (typeof time === "number") return time;
  if (typeof time !== "string") return undefined;
  const text = time.includes("T") ? time : `${time.replace(" ", "T")}Z`;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms / 1000;
}
