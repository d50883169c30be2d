import { expect, test } from "vitest";
import { exact, exactJson } from "./exactJson";

test("large integers keep their digits", () => {
  expect(exact(2 ** 63, "9223372036854775807")).toBe("9223372036854775807");
  expect(exact(-(2 ** 63), "-9223372036854775808")).toBe("-9223372036854775808");
  expect(exact(12, "12")).toBe(12);
  expect(exact(1e20, "1e20")).toBe(1e20);
  expect(exact(1.5, "1.5")).toBe(1.5);
  // A browser that does not tell the source.
  expect(exact(2 ** 53, undefined)).toBe(2 ** 53);
});

test("everything else is plain JSON", () => {
  expect(exactJson('{"rows":[[1,null,"x",{"a":[true]}]]}')).toEqual({
    rows: [[1, null, "x", { a: [true] }]],
  });
  expect(() => exactJson("{")).toThrow();
});
