import { expect, test } from "vitest";
import {
  agoText,
  clampTo,
  isWithin,
  keyStep,
  localText,
  ofLocalText,
  quickTimes,
  rfc3339,
  shareOf,
  spanOf,
} from "./times";

const NOW = Date.parse("2026-11-18T13:29:00Z");
const SECONDS = NOW / 1000;

test("a window has the whole seconds between its ends", () => {
  const span = spanOf({ earliest: "2026-11-18T10:00:00.2Z", latest: "2026-11-18T13:28:59.9Z" });
  expect(span && [rfc3339(span.earliest), rfc3339(span.latest)]).toEqual([
    "2026-11-18T10:00:01Z",
    "2026-11-18T13:28:59Z",
  ]);
  expect(spanOf({ earliest: "2026-11-18T10:00:00.2Z", latest: "2026-11-18T10:00:00.9Z" })).toBe(
    undefined,
  );
  expect(spanOf({ earliest: "never", latest: "never" })).toBe(undefined);
  expect(spanOf(undefined)).toBe(undefined);
});

test("the thumb stays on the track", () => {
  const span = { earliest: 100, latest: 300 };
  expect([50, 100, 200, 300, 999].map((at) => shareOf(at, span))).toEqual([0, 0, 0.5, 1, 1]);
  expect(shareOf(5, { earliest: 5, latest: 5 })).toBe(1);
  expect([clampTo(0, span), clampTo(150, span), clampTo(301, span)]).toEqual([100, 150, 300]);
  expect([isWithin(99, span), isWithin(300, span)]).toEqual([false, true]);
});

test("keys move by a second, a minute or an hour", () => {
  expect(keyStep("ArrowLeft", "none")).toBe(-60);
  expect(keyStep("ArrowUp", "shift")).toBe(1);
  expect(keyStep("PageDown", "none")).toBe(-3600);
  expect(keyStep("Home", "none")).toBe(undefined);
});

test("times are said as people say them", () => {
  expect(agoText(SECONDS - 2 * 3600 - 13 * 60, NOW)).toBe("2 h 13 min ago");
  expect(agoText(SECONDS + 3, NOW)).toBe("now");
  const labels = (earliest: number) =>
    quickTimes({ earliest, latest: SECONDS - 30 }, NOW).map(({ label }) => label);
  expect(labels(SECONDS - 2 * 3600)).toEqual(["10 min ago", "1 h ago"]);
  expect(labels(SECONDS - 60)).toEqual([]);
});

test("a field of local time means the same second", () => {
  expect(ofLocalText(localText(SECONDS))).toBe(SECONDS);
  expect(localText(ofLocalText("0002-11-18T11:16:00") ?? 0)).toMatch(/^0002-11-18T11:16/);
  expect(ofLocalText("")).toBe(undefined);
  expect(ofLocalText("2026-11-18")).toBe(undefined);
});
