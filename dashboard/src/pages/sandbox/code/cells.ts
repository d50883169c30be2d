/** The order of cells. Pure. */

/** Puts a cell after another one; at the end if that is unknown. */
export function withCellAfter<T extends { readonly id: number }>(
  cells: readonly T[],
  cell: T,
  after: number | undefined,
): readonly T[] {
  const at = cells.findIndex(({ id }) => id === after);
  return at < 0 ? [...cells, cell] : cells.toSpliced(at + 1, 0, cell);
}

/** Takes a cell out. The last one stays: a notebook has at least one. */
export function withoutCell<T extends { readonly id: number }>(
  cells: readonly T[],
  id: number,
): readonly T[] {
  return cells.length <= 1 ? cells : cells.filter((one) => one.id !== id);
}
