/** The times below a chart. Pure, but for the reader's time zone. */

const DAY = 86_400;
const MINUTE = 60;

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Hours and minutes; with seconds or as days if the ticks are so far apart. */
export function timeTicks(ticks: readonly number[]): string[] {
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => (step >= DAY ? dayText(tick) : clockText(tick, step < MINUTE)));
}

/** One time, for the legend. Bars are days in UTC, as the server counts them. */
export function timeText(seconds: number, isDay: boolean): string {
  if (isDay) return dayText(seconds);
  return `${dayText(seconds)} ${clockText(seconds)}`;
}

function clockText(seconds: number, isExact = false): string {
  const date = new Date(seconds * 1000);
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return isExact ? `${minutes}:${two(date.getSeconds())}` : minutes;
}

function dayText(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${date.getDate()} ${date.toLocaleString("en", { month: "short" })}`;
}
