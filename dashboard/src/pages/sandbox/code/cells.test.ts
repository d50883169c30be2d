import { expect, test } from "vitest";
import { withCellAfter, withoutCell } from "./cells";

const cells = [{ id: 1 }, { id: 2 }];

test("a cell goes after another one, or to the end", () => {
  expect(withCellAfter(cells, { id: 3 }, 1).map(({ id }) => id)).toEqual([1, 3, 2]);
  expect(withCellAfter(cells, { id: 3 }, undefined).map(({ id }) => id)).toEqual([1, 2, 3]);
  expect(withCellAfter(cells, { id: 3 }, 99).map(({ id }) => id)).toEqual([1, 2, 3]);
});

test("the last cell stays", () => {
  expect(withoutCell(cells, 1)).toEqual([{ id: 2 }]);
  expect(withoutCell([{ id: 2 }], 2)).toEqual([{ id: 2 }]);
});
