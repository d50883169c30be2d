import { type KeyboardEvent, type MouseEvent, memo, type ReactNode } from "react";
import { cx } from "./cx";
import { Checkbox } from "./Input";
import type { SortValue } from "./sorting";

export interface Column<T> {
  id: string;
  header: string;
  cell: (row: T) => ReactNode;
  /** A track of a CSS grid, such as `120px` or `minmax(160px, 1fr)`. */
  width: string;
  align?: "end";
  /** Makes the column sortable. */
  sort?: (row: T) => SortValue;
  /** Hidden while the table is narrower than this many pixels. */
  from?: number;
  /** The header is not shown, only read out. */
  headerHidden?: boolean;
}

/**
 * The link to what a row opens. It is a plain link, which is cheap: the row handles the click.
 */
export function RowLink(props: { href: string; className?: string; children: ReactNode }) {
  return (
    <a data-open="" href={props.href} className={cx("hover:underline", props.className)}>
      {props.children}
    </a>
  );
}

/** What a row does when it is used. */
export interface RowHandlers<T> {
  pick: (id: string, checked: boolean, range: boolean) => void;
  open: (row: T) => void;
}

interface RowProps {
  row: unknown;
  id: string;
  index: number;
  columns: readonly Column<unknown>[];
  template: string;
  height: number;
  floating: boolean;
  picked: boolean | undefined;
  canOpen: boolean;
  handlers: RowHandlers<unknown>;
}

/** One row. It is drawn again only if what it shows changed. */
export const TableRow = memo(function Row(props: RowProps) {
  const { row, id, index, columns, template, height, floating, picked, canOpen, handlers } = props;
  const isControl = (event: MouseEvent | KeyboardEvent): boolean =>
    (event.target as HTMLElement).closest("a, button, input, [role=menu]") !== null;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={picked}
      data-index={index}
      data-row={id}
      tabIndex={-1}
      onClick={(event) => {
        const isPlain = !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
        if ((event.target as HTMLElement).closest("a[data-open]") !== null) {
          if (!isPlain) return;
          event.preventDefault();
          handlers.open(row);
        } else if (!isControl(event) && !window.getSelection()?.toString()) handlers.open(row);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && !isControl(event)) handlers.open(row);
        if (event.key !== "x" || picked === undefined || isControl(event)) return;
        handlers.pick(id, !picked, event.shiftKey);
      }}
      className={cx(
        "grid w-full items-center border-b border-line px-2 focus-visible:outline-offset-[-2px]",
        canOpen && "cursor-pointer",
        picked ? "bg-accent-soft/60" : "hover:bg-hover",
        floating ? "absolute top-0 left-0 contain-strict" : "last:border-b-0",
      )}
      style={{
        gridTemplateColumns: template,
        height,
        ...(floating ? { transform: `translateY(${index * height}px)` } : {}),
      }}
    >
      {picked !== undefined && (
        <div role="cell" className="px-2">
          <Checkbox
            aria-label={`Select ${id}`}
            checked={picked}
            onClick={(event) => handlers.pick(id, !picked, event.shiftKey)}
            onChange={() => undefined}
          />
        </div>
      )}
      {columns.map((column) => (
        <div
          key={column.id}
          role="cell"
          className={cx(
            "min-w-0 truncate px-2",
            column.align === "end" && "text-right tabular-nums",
          )}
        >
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
});
