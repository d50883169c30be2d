import { describe, expect, it } from "vitest";
import { type KeyPress, matchHotkey } from "./hotkeys";
import { idsBetween, nextSort, rowsInView, sortRows } from "./sorting";

function press(key: string, held: Partial<KeyPress> = {}): KeyPress {
  return { key, mod: false, shift: false, alt: false, ...held };
}

describe("matchHotkey", () => {
  it("knows single keys and sequences", () => {
    expect(matchHotkey("c", [press("c")])).toBe(true);
    expect(matchHotkey("g s", [press("g"), press("s")])).toBe(true);
    expect(matchHotkey("g s", [press("s")])).toBe(false);
    expect(matchHotkey("g s", [press("x"), press("s")])).toBe(false);
  });

  it("needs exactly the held keys", () => {
    expect(matchHotkey("mod+k", [press("k", { mod: true })])).toBe(true);
    expect(matchHotkey("k", [press("k", { mod: true })])).toBe(false);
    expect(matchHotkey("mod+k", [press("k")])).toBe(false);
    expect(matchHotkey("c", [press("C", { shift: true })])).toBe(false);
    expect(matchHotkey("c", [press("c", { alt: true })])).toBe(false);
  });

  it("takes signs with or without shift, as keyboards differ", () => {
    expect(matchHotkey("?", [press("?", { shift: true })])).toBe(true);
    expect(matchHotkey("?", [press("?")])).toBe(true);
  });
});

describe("sorting", () => {
  const rows = [{ n: 2 }, { n: undefined }, { n: 10 }, { n: 1 }];

  it("puts rows without a value last in both directions", () => {
    expect(sortRows(rows, ({ n }) => n, false).map(({ n }) => n)).toEqual([1, 2, 10, undefined]);
    expect(sortRows(rows, ({ n }) => n, true).map(({ n }) => n)).toEqual([10, 2, 1, undefined]);
  });

  it("keeps the order of equal rows, and the old list", () => {
    const equal = ["b", "a", "c"].map((id) => ({ id }));
    expect(sortRows(equal, () => 1, true).map(({ id }) => id)).toEqual(["b", "a", "c"]);
    expect(rows[0]).toEqual({ n: 2 });
  });

  it("goes round: up, down, as it came", () => {
    const up = nextSort(undefined, "a");
    const down = nextSort(up, "a");
    expect([up, down, nextSort(down, "a"), nextSort(down, "b")]).toEqual([
      { id: "a", desc: false },
      { id: "a", desc: true },
      undefined,
      { id: "b", desc: false },
    ]);
  });

  it("selects a range in both directions", () => {
    expect(idsBetween(["a", "b", "c", "d"], "d", "b")).toEqual(["b", "c", "d"]);
    expect(idsBetween(["a", "b"], "gone", "b")).toEqual(["b"]);
  });
});

describe("rowsInView", () => {
  it("covers the view with rows on both sides", () => {
    const [first, end] = rowsInView(4000, 600, 40);
    expect(first).toBeLessThanOrEqual(96);
    expect(end).toBeGreaterThanOrEqual(119);
    expect(end - first).toBeLessThan(60);
  });

  it("begins at the first row, and stays the same for small moves", () => {
    expect(rowsInView(0, 600, 40)[0]).toBe(0);
    expect(rowsInView(4010, 600, 40)).toEqual(rowsInView(4030, 600, 40));
  });
});
