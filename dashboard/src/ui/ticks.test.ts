import { afterEach, describe, expect, it, vi } from "vitest";
import { areDays, daySplits, timeSteps, timeText, timeTicks } from "./ticks";

const HOUR = 3600;
const DAY = 86_400;
const AT = new Date(2026, 10, 18, 3, 15, 0).getTime() / 1000;
const NOV_3 = Date.UTC(2026, 10, 3) / 1000;

afterEach(() => {
  vi.unstubAllEnvs();
});

it.each([
  [30, ["03:15:00", "03:15:30"]],
  [60, ["03:15", "03:16"]],
  [DAY, ["Nov 18", "Nov 19"]],
])("ticks that are %d seconds apart differ", (step, texts) => {
  expect(timeTicks([AT, AT + step], step)).toEqual(texts);
});

it("a single tick, and one after a day of 23 hours, are dates too", () => {
  expect(timeTicks([AT], DAY)).toEqual(["Nov 18"]);
  expect(timeTicks([AT, AT + 23 * HOUR], DAY)).toEqual(["Nov 18", "Nov 19"]);
});

describe("timeSteps", () => {
  it.each([
    ["an hour of minutes", HOUR, 60],
    ["a day of minutes", DAY, 1440],
    ["one point", DAY, 1],
    ["two days", 2 * DAY, 100],
  ])("has hours for %s", (_name, range, points) => {
    expect(timeSteps(range, points)).toContain(HOUR);
  });

  it.each([
    ["points that are days apart", DAY, 2],
    ["three days", 3 * DAY, 1000],
    ["a week", 7 * DAY, 1000],
  ])("has only days for %s", (_name, range, points) => {
    expect(timeSteps(range, points).every((step) => step % DAY === 0)).toBe(true);
  });
});

describe("points that are days", () => {
  const days = [NOV_3, NOV_3 + DAY, NOV_3 + 2 * DAY];

  it("are told from others", () => {
    expect(areDays(days)).toBe(true);
    expect(areDays([NOV_3])).toBe(true);
    expect(areDays([...days, NOV_3 + 3 * DAY + HOUR])).toBe(false);
  });

  it("have ticks on the days, also if there is half a day more on both sides", () => {
    const range: [number, number] = [NOV_3 - DAY / 2, NOV_3 + 2.5 * DAY];
    expect(daySplits(NOV_3, range, DAY)).toEqual(days);
    expect(daySplits(NOV_3, range, 2 * DAY)).toEqual([NOV_3, NOV_3 + 2 * DAY]);
    expect(daySplits(NOV_3, [NOV_3 - 1.5 * DAY, NOV_3], DAY)).toEqual([NOV_3 - DAY, NOV_3]);
  });

  it.each(["UTC", "America/New_York", "Asia/Tokyo"])("have the server's date in %s", (zone) => {
    vi.stubEnv("TZ", zone);
    expect(timeTicks(days, DAY, true)).toEqual(["Nov 3", "Nov 4", "Nov 5"]);
    expect(timeText(NOV_3, true)).toBe("Nov 3");
  });
});
