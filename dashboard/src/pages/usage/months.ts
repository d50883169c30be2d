/** Calendar months in UTC, as the server bills them. Pure. */

/** Such as `2026-11`. */
export type Month = `${number}-${string}`;

const SHOWN = 3;

/** This month and those before it, the newest first. */
export function months(now: Date): Month[] {
  return Array.from({ length: SHOWN }, (_, back) => {
    const first = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1));
    return first.toISOString().slice(0, 7) as Month;
  });
}

/** First and last day of a month. */
export function rangeOf(month: Month): { from: string; to: string } {
  const [year = 1970, number = 1] = month.split("-").map(Number);
  const last = new Date(Date.UTC(year, number, 0)).getUTCDate();
  return { from: `${month}-01`, to: `${month}-${String(last).padStart(2, "0")}` };
}
