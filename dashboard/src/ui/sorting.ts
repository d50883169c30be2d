/** Which rows a table shows, and in which order. Pure. */

export type SortValue = string | number | undefined;

export interface Sort {
  readonly id: string;
  readonly desc: boolean;
}

/** A sorted copy. Rows without a value come last in both directions; equal rows keep their order. */
export function sortRows<T>(
  rows: readonly T[],
  sortValue: (row: T) => SortValue,
  desc: boolean,
): readonly T[] {
  const keyed = rows.map((row) => ({ row, value: sortValue(row) }));
  const sign = desc ? -1 : 1;
  keyed.sort((a, b) => {
    if (a.value === undefined || b.value === undefined) {
      return Number(a.value === undefined) - Number(b.value === undefined);
    }
    if (a.value === b.value) return 0;
    return a.value < b.value ? -sign : sign;
  });
  return keyed.map(({ row }) => row);
}

/** The next sort after a click on a column: ascending, descending, as it came. */
export function nextSort(sort: Sort | undefined, id: string): Sort | undefined {
  if (sort?.id !== id) return { id, desc: false };
  return sort.desc ? undefined : { id, desc: true };
}

/** The ids between two rows, both included; for a click with shift. */
export function idsBetween(ids: readonly string[], from: string, to: string): string[] {
  const a = ids.indexOf(from);
  const b = ids.indexOf(to);
  if (a < 0 || b < 0) return [to];
  return ids.slice(Math.min(a, b), Math.max(a, b) + 1);
}

/** Rows that are drawn above and below the view. */
export const ROWS_AROUND = 4;
// The range moves in steps, so that most scroll events draw nothing new.
const ROWS_STEP = 4;

/** The first row to draw and the one after the last, for a view of a long list. */
export function rowsInView(scrollTop: number, height: number, rowHeight: number): [number, number] {
  const first = Math.floor(scrollTop / rowHeight) - ROWS_AROUND;
  const end = Math.ceil((scrollTop + height) / rowHeight) + ROWS_AROUND;
  return [
    Math.max(0, Math.floor(first / ROWS_STEP) * ROWS_STEP),
    Math.ceil(end / ROWS_STEP) * ROWS_STEP,
  ];
}
