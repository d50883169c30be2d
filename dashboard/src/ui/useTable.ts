import { type KeyboardEvent, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { idsBetween, ROWS_AROUND, rowsInView } from "./sorting";
import type { RowHandlers } from "./TableRow";
import { useHotkey } from "./useHotkey";

/** The height of the head of a table. */
export const HEAD_PX = 34;

type Scroller = { readonly current: HTMLElement | null };

interface Picking<T> {
  rows: readonly T[];
  rowId: (row: T) => string;
  selected: ReadonlySet<string> | undefined;
  onSelect: ((selected: ReadonlySet<string>) => void) | undefined;
  onOpen: ((row: T) => void) | undefined;
}

/** What rows do when they are used. The object never changes, so that rows are not drawn again. */
export function useRowHandlers<T>(picking: Picking<T>): RowHandlers<T> {
  const latest = useRef(picking);
  latest.current = picking;
  const lastPicked = useRef<string>(undefined);
  return useMemo(
    () => ({
      open: (row) => latest.current.onOpen?.(row),
      pick(id, checked, range) {
        const { rows, rowId, selected, onSelect } = latest.current;
        if (!onSelect || !selected) return;
        const from = range ? lastPicked.current : undefined;
        const ids = from === undefined ? [id] : idsBetween(rows.map(rowId), from, id);
        const next = new Set(selected);
        for (const one of ids) {
          if (checked) next.add(one);
          else next.delete(one);
        }
        lastPicked.current = id;
        onSelect(next);
      },
    }),
    [],
  );
}

interface RowKeys {
  ref: Scroller;
  count: number;
  /** The first row that is drawn. */
  first: number;
  rowHeight: number;
  fill: boolean;
}

/** Moves the focus between rows: arrows, `j` and `k`. Returns the handler of the table. */
export function useRowKeys(keys: RowKeys): (event: KeyboardEvent) => void {
  const { ref, count, first, rowHeight, fill } = keys;
  const focusRow = (index: number): void => {
    if (index < 0 || index >= count) return;
    if (fill && ref.current) scrollToRow(ref.current, index, rowHeight);
    requestAnimationFrame(() => {
      ref.current?.querySelector<HTMLElement>(`[data-index="${index}"]`)?.focus();
    });
  };
  // The main list of a page takes the keys also while the focus is elsewhere.
  const enter = (): void => focusRow(first > 0 ? first + ROWS_AROUND : 0);
  useHotkey("j", enter, { enabled: fill });
  useHotkey("k", enter, { enabled: fill });
  return (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const target = event.target as HTMLElement;
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches("input:not([type=checkbox]), select, textarea")) return;
    const row = target.closest<HTMLElement>("[data-index]");
    event.preventDefault();
    focusRow(row === null ? 0 : Number(row.dataset["index"]) + step);
  };
}

interface DrawnRows {
  readonly indexes: readonly number[];
  readonly first: number;
  /**
   * Rows that leave the view are used for those that enter it: changing one is cheaper than making
   * one. This is the number of them. It only grows, because another one would make all of them new.
   */
  readonly pool: number;
}

/** The rows to draw: those in view and some around them, or all without `fill`. */
export function useDrawnRows(
  ref: Scroller,
  count: number,
  rowHeight: number,
  fill: boolean,
): DrawnRows {
  const [first, end] = useVisibleRows(ref, fill ? count : 0, rowHeight);
  const pooled = useRef(1);
  pooled.current = Math.max(pooled.current, end - first);
  const indexes = fill ? range(first, end) : range(0, count);
  return { indexes, first, pool: pooled.current };
}

function range(first: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at);
}

/** The first row to draw and the one after the last. All rows have the same height. */
function useVisibleRows(
  ref: Scroller,
  rows: number,
  rowHeight: number,
): [first: number, end: number] {
  const [range, setRange] = useState<[number, number]>([0, 40]);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null || rows === 0) return;
    const measure = () => {
      const next = rowsInView(element.scrollTop, element.clientHeight, rowHeight);
      setRange((old) => (old[0] === next[0] && old[1] === next[1] ? old : next));
    };
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [ref, rows, rowHeight]);
  return [Math.min(range[0], rows), Math.min(range[1], rows)];
}

function scrollToRow(element: HTMLElement, index: number, rowHeight: number): void {
  const top = index * rowHeight;
  const bottom = top + rowHeight + HEAD_PX;
  if (top < element.scrollTop) element.scrollTop = top;
  else if (bottom > element.scrollTop + element.clientHeight) {
    element.scrollTop = bottom - element.clientHeight;
  }
}

/** The width of an element, in steps, so that a resize does not render every pixel. */
export function useWidth(ref: Scroller): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const measure = () => setWidth(Math.floor(element.clientWidth / 20) * 20);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return width;
}
