/** The times below a chart. Pure, but for the reader's time zone. */

const MINUTE = 60;
const DAY = 86_400;
/** In seconds, up to four weeks. */
export const DAY_STEPS = [1, 2, 7, 14, 28].map((days) => days * DAY);
const CLOCK_STEPS = [1, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200];
const STEPS = [...CLOCK_STEPS, ...DAY_STEPS];
// In a longer range an hour does not say of which day it is.
const CLOCK_RANGE_MAX = 2 * DAY;

// Making a formatter costs more than a hundred uses of it.
const LOCAL_DAY = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });
const UTC_DAY = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });

/** Whether each point is a whole day, in UTC as the server counts them. */
export function areDays(times: readonly number[]): boolean {
  return times.every((time) => time % DAY === 0);
}

/** Steps that the ticks may take, in seconds. Without hours if the points are days apart. */
export function timeSteps(range: number, points: number): number[] {
  const areApart = points > 1 && range / (points - 1) >= DAY;
  return areApart || range > CLOCK_RANGE_MAX ? DAY_STEPS : STEPS;
}

/** Where the ticks are if the points are days: on the first point, and in steps from there. */
export function daySplits(first: number, [min, max]: [number, number], step: number): number[] {
  const start = first - Math.floor((first - min) / step) * step;
  return Array.from({ length: Math.floor((max - start) / step) + 1 }, (_, at) => start + at * step);
}

/** Hours and minutes; with seconds or as dates if the ticks are so far apart. */
export function timeTicks(ticks: readonly number[], step: number, isUtc = false): string[] {
  return ticks.map((tick) => (step >= DAY ? dayText(tick, isUtc) : clockText(tick, step < MINUTE)));
}

/** One time, for the legend. */
export function timeText(seconds: number, isDay: boolean): string {
  if (isDay) return dayText(seconds, true);
  return `${dayText(seconds, false)} ${clockText(seconds)}`;
}

function clockText(seconds: number, isExact = false): string {
  const date = new Date(seconds * 1000);
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return isExact ? `${minutes}:${two(date.getSeconds())}` : minutes;
}

function dayText(seconds: number, isUtc: boolean): string {
  return (isUtc ? UTC_DAY : LOCAL_DAY).format(seconds * 1000);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
