import { expect, test } from "vitest";
import { cellText, csvOf, isNumeric, ROWS_MAX, resultText, shownRows } from "./results";

test("NULL is not an empty text", () => {
  expect(cellText(null)).toBeUndefined();
  expect(cellText("")).toBe("");
  expect(cellText(false)).toBe("false");
  expect(cellText({ a: [1] })).toBe('{"a":[1]}');
});

test("a result says what happened", () => {
  const columns = [{ name: "a", type: "INT4" }];
  expect(resultText({ columns, rows: [[1]], count: 1 })).toBe("1 row");
  expect(resultText({ columns, rows: [], count: 0 })).toBe("0 rows");
  expect(resultText({ rows_affected: 1200 })).toBe("1,200 rows affected");
  expect(resultText({ rows_affected: 0 })).toBe("Done, no rows affected");
  expect(resultText({ columns: [], count: 0 })).toBe("Done, without rows");
  expect(columns.every(isNumeric)).toBe(true);
});

test("fields are quoted where they must be", () => {
  const columns = [
    { name: "a,b", type: "TEXT" },
    { name: "c", type: "JSON" },
  ];
  const rows = [
    ['say "hi"', { x: 1 }],
    [null, "two\nlines"],
  ];
  expect(csvOf({ columns, rows })).toBe('"a,b",c\r\n"say ""hi""","{""x"":1}"\r\n,"two\nlines"\r\n');
});

test("too many rows are cut, and that is known", () => {
  const rows = Array.from({ length: ROWS_MAX + 1 }, (_, at) => [at]);
  const { result, isCut } = shownRows({ rows, count: rows.length });
  expect([result.rows?.length, result.count, isCut]).toEqual([ROWS_MAX, ROWS_MAX, true]);
  expect(shownRows({ rows: [[1]], count: 1 }).isCut).toBe(false);
  expect(shownRows({ rows_affected: 2 })).toEqual({ result: { rows_affected: 2 }, isCut: false });
});
