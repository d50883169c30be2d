import { describe, expect, it, test } from "vitest";
import {
  bytes,
  count,
  duration,
  hours,
  millis,
  percent,
  plural,
  relativeTime,
  sentence,
  shortId,
  usd,
} from "./format";

const NOW = Date.parse("2026-11-18T12:00:00Z");

describe("relativeTime", () => {
  it.each([
    ["2026-11-18T12:00:00Z", "now"],
    ["2026-11-18T11:59:50Z", "10 s ago"],
    ["2026-11-18T11:58:01Z", "1 min ago"],
    ["2026-11-18T09:00:00Z", "3 h ago"],
    ["2026-11-10T12:00:00Z", "8 d ago"],
    ["2026-11-18T12:05:00Z", "in 5 min"],
    ["2024-01-01T00:00:00Z", "2 y ago"],
    ["", "never"],
    ["no time", "never"],
  ])("%s is %s", (at, text) => {
    expect(relativeTime(at, NOW)).toBe(text);
  });

  it("says never without a time", () => {
    expect(relativeTime(undefined, NOW)).toBe("never");
  });
});

describe("numbers", () => {
  it("shows milliseconds as people read them", () => {
    expect([0.94, 7.25, 8, 181.4, 999.6, 1250, 12_500].map(millis)).toEqual([
      "0.9 ms",
      "7.3 ms",
      "8 ms",
      "181 ms",
      "1000 ms",
      "1.25 s",
      "12.5 s",
    ]);
    expect(millis(undefined)).toBe("–");
    expect(millis(Number.NaN)).toBe("–");
  });

  it("shows bytes in the largest unit that fits", () => {
    expect([0, 512, 1536, 1024 ** 2, 20 * 1024 ** 3, 2 * 1024 ** 5].map(bytes)).toEqual([
      "0 B",
      "512 B",
      "1.5 KiB",
      "1 MiB",
      "20 GiB",
      "2048 TiB",
    ]);
    expect(bytes(-1536)).toBe("-1.5 KiB");
  });

  it("keeps small prices visible", () => {
    expect([0, 0.00042, 0.0123, 1.5, 1234].map(usd)).toEqual([
      "$0.00",
      "$0.00042",
      "$0.012",
      "$1.50",
      "$1234.00",
    ]);
  });

  it("separates thousands", () => {
    expect([0, 999, 1000, 10_000, 1_234_567].map(count)).toEqual([
      "0",
      "999",
      "1,000",
      "10,000",
      "1,234,567",
    ]);
    expect(plural(1, "sandbox", "sandboxes")).toBe("1 sandbox");
    expect(plural(1200, "sandbox", "sandboxes")).toBe("1,200 sandboxes");
  });

  it("shows hours of small and large usage", () => {
    expect([0, 36, 3600, 900_000].map(hours)).toEqual(["0 h", "0.010 h", "1.00 h", "250 h"]);
  });

  it("shows durations with two units", () => {
    expect([0.4, 59, 61, 3600, 3660, 90_061].map(duration)).toEqual([
      "0 s",
      "59 s",
      "1 min 1 s",
      "1 h",
      "1 h 1 min",
      "1 d 1 h",
    ]);
  });

  it("shortens only long ids", () => {
    expect(shortId("5c0f1a2b-3333-4444")).toBe("5c0f1a2b");
    expect(shortId("mini")).toBe("mini");
  });
});

it.each([
  [0, "0 %"],
  [0.54, "0.5 %"],
  [8, "8 %"],
  [42.4, "42 %"],
])("%d is %s", (value, text) => {
  expect(percent(value)).toBe(text);
});

test("a text of the server becomes a sentence", () => {
  expect(sentence("the disk is full")).toBe("The disk is full.");
  expect(sentence(" Try again. ")).toBe("Try again.");
  expect(sentence("")).toBe("");
});
