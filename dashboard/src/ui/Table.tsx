import { ArrowDown, ArrowUp } from "lucide-react";
import { type ReactNode, useMemo, useRef, useState } from "react";
import { cx } from "./cx";
import { Checkbox } from "./Input";
import { nextSort, type Sort, sortRows } from "./sorting";
import { type Column, type RowHandlers, RowLink, TableRow } from "./TableRow";
import { HEAD_PX, useDrawnRows, useRowHandlers, useRowKeys, useWidth } from "./useTable";

export { type Column, RowLink };

export interface TableProps<T> {
  /** What the table lists, for screen readers. */
  label: string;
  rows: readonly T[];
  rowId: (row: T) => string;
  columns: readonly Column<T>[];
  /** Opens a row: click beside a control, or Enter. */
  onOpen?: (row: T) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (selected: ReadonlySet<string>) => void;
  initialSort?: Sort;
  /** Takes the height that is left and scrolls; otherwise the table is as high as its rows. */
  fill?: boolean;
  rowHeight?: number;
  /** In the place of rows if there are none. */
  empty?: ReactNode;
}

const ROW_PX = 40;

/** A table that stays smooth with ten thousand rows: only the visible ones are in the page. */
export function Table<T>(props: TableProps<T>) {
  const { label, rows, rowId, columns, onOpen, selected, onSelect, fill = false } = props;
  const { rowHeight = ROW_PX, empty } = props;
  const [sort, setSort] = useState<Sort | undefined>(props.initialSort);
  const scroller = useRef<HTMLDivElement>(null);
  const width = useWidth(scroller);
  const sorted = useSorted(rows, columns, sort);
  const shown = useMemo(
    () => columns.filter(({ from = 0 }) => width === 0 || width >= from),
    [columns, width],
  );
  const hasBoxes = onSelect !== undefined;
  const template = useMemo(
    () => [...(hasBoxes ? ["36px"] : []), ...shown.map((one) => one.width)].join(" "),
    [shown, hasBoxes],
  );
  const { indexes, first, pool } = useDrawnRows(scroller, sorted.length, rowHeight, fill);
  const handlers = useRowHandlers({ rows: sorted, rowId, selected, onSelect, onOpen });
  const onKeyDown = useRowKeys({ ref: scroller, count: sorted.length, first, rowHeight, fill });

  const drawn = indexes.map((index) => {
    const row = sorted[index];
    if (row === undefined) return null;
    const id = rowId(row);
    return (
      <TableRow
        key={fill ? index % pool : id}
        row={row as unknown}
        id={id}
        index={index}
        columns={shown as readonly Column<unknown>[]}
        template={template}
        height={rowHeight}
        floating={fill}
        picked={hasBoxes ? (selected?.has(id) ?? false) : undefined}
        canOpen={onOpen !== undefined}
        handlers={handlers as RowHandlers<unknown>}
      />
    );
  });
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: arrow keys move between rows
    <div
      ref={scroller}
      data-table=""
      onKeyDown={onKeyDown}
      className={cx(
        "relative overflow-auto border-t border-line bg-panel",
        fill ? "min-h-0 flex-1" : "rounded-b-lg",
      )}
    >
      <div role="table" aria-label={label} aria-rowcount={sorted.length + 1} className="min-w-full">
        <TableHead {...props} columns={shown} template={template} sort={sort} onSort={setSort} />
        <div
          role="rowgroup"
          className="relative"
          style={fill ? { height: sorted.length * rowHeight } : undefined}
        >
          {drawn}
        </div>
      </div>
      {sorted.length === 0 && empty}
    </div>
  );
}

function useSorted<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  sort: Sort | undefined,
): readonly T[] {
  const value = columns.find(({ id }) => id === sort?.id)?.sort;
  return useMemo(
    () => (sort === undefined || value === undefined ? rows : sortRows(rows, value, sort.desc)),
    [rows, sort, value],
  );
}

interface HeadProps<T> extends TableProps<T> {
  template: string;
  sort: Sort | undefined;
  onSort: (sort: Sort | undefined) => void;
}

function TableHead<T>(props: HeadProps<T>) {
  const { rows, rowId, columns, selected, onSelect, template, sort, onSort } = props;
  const allPicked =
    selected !== undefined && rows.length > 0 && rows.every((row) => selected.has(rowId(row)));
  return (
    <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-panel">
      <div
        role="row"
        className="grid items-center px-2 text-xs text-muted"
        style={{ gridTemplateColumns: template, height: HEAD_PX }}
      >
        {onSelect && (
          <div role="columnheader" className="px-2">
            <Checkbox
              aria-label="Select all"
              checked={allPicked}
              ref={(box) => {
                if (box) box.indeterminate = !allPicked && (selected?.size ?? 0) > 0;
              }}
              onChange={() => onSelect(new Set(allPicked ? [] : rows.map(rowId)))}
            />
          </div>
        )}
        {columns.map((column) => (
          <Head key={column.id} column={column} sort={sort} onSort={onSort} />
        ))}
      </div>
    </div>
  );
}

function Head<T>(props: {
  column: Column<T>;
  sort: Sort | undefined;
  onSort: (sort: Sort | undefined) => void;
}) {
  const { column, sort, onSort } = props;
  const own = sort?.id === column.id ? sort : undefined;
  const end = column.align === "end";
  return (
    <div
      role="columnheader"
      aria-sort={own ? (own.desc ? "descending" : "ascending") : undefined}
      className={cx("min-w-0 truncate px-2", end && "text-right", column.headerHidden && "sr-only")}
    >
      {column.sort ? (
        <button
          type="button"
          onClick={() => onSort(nextSort(sort, column.id))}
          className={cx("inline-flex items-center gap-1 hover:text-ink", own && "text-ink")}
        >
          {column.header}
          {own && (own.desc ? <ArrowDown size={12} /> : <ArrowUp size={12} />)}
        </button>
      ) : (
        column.header
      )}
    </div>
  );
}
