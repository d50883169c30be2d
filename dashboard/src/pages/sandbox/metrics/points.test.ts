import { expect, test } from "vitest";
import { pointsOf } from "./points";

test("times are UTC, and what is no number is a gap", () => {
  const { times, values } = pointsOf([
    ["2026-11-17 09:12:00", 1.5],
    ["2026-11-17T09:12:15Z", "x"],
    ["nonsense", 3],
  ]);
  expect(times).toEqual([
    Date.UTC(2026, 10, 17, 9, 12) / 1000,
    Date.UTC(2026, 10, 17, 9, 12, 15) / 1000,
  ]);
  expect(values).toEqual([1.5, null]);
  expect(pointsOf(undefined)).toEqual({ times: [], values: [] });
});
