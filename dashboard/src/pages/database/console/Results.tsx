import { ArrowDownToLine, Check, Copy } from "lucide-react";
import { useState } from "react";
import type { SqlColumn, SqlResult } from "@/data/databases";
import { count } from "@/data/format";
import { Button, Card, cx, IconButton, useCopied } from "@/ui";
import { save } from "../../usage/save";
import { cellText, csvOf, isNumeric, ROWS_MAX, resultText, shownRows } from "./results";

/** Rows that are drawn before somebody asks for all. */
const FIRST_ROWS = 100;

/** What one statement gave. */
export function Results(props: { result: SqlResult; statement: string; took: string }) {
  const { statement, took } = props;
  const { result, isCut } = shownRows(props.result);
  const { columns = [], rows = [] } = result;
  const [isAll, setAll] = useState(false);
  const [copied, copy] = useCopied();
  const drawn = isAll ? rows : rows.slice(0, FIRST_ROWS);
  const summary = [
    isCut ? `The first ${count(ROWS_MAX)} rows` : resultText(result),
    ...(took === "" ? [] : [`in ${took}`]),
  ].join(" ");
  return (
    <Card
      flush
      title={<span role="status">{summary}</span>}
      description={<code className="block truncate font-mono text-2xs">{statement}</code>}
      actions={
        columns.length > 0 && (
          <>
            <IconButton
              size="sm"
              label={copied ? "Copied" : "Copy as CSV"}
              icon={copied ? <Check size={14} className="text-ok" /> : <Copy size={14} />}
              onClick={() => copy(csvOf(result))}
            />
            <IconButton
              size="sm"
              label="Save as CSV"
              icon={<ArrowDownToLine size={14} />}
              onClick={() => save("result.csv", csvOf(result), "text/csv")}
            />
          </>
        )
      }
    >
      {columns.length > 0 && <Rows columns={columns} rows={drawn} />}
      {drawn.length < rows.length && (
        <div className="border-t border-line p-2 text-center">
          <Button size="sm" onClick={() => setAll(true)}>
            Show all {count(rows.length)} rows
          </Button>
        </div>
      )}
    </Card>
  );
}

function Rows(props: { columns: readonly SqlColumn[]; rows: readonly (readonly unknown[])[] }) {
  const { columns, rows } = props;
  return (
    <section
      aria-label="Rows"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      className="max-h-[32rem] overflow-auto rounded-b-lg border-t border-line"
    >
      <table className="w-max border-separate border-spacing-0 text-xs">
        <thead className="sticky top-0 bg-panel">
          <tr>
            {columns.map((column, at) => (
              <th
                // biome-ignore lint/suspicious/noArrayIndexKey: columns may have the same name
                key={at}
                scope="col"
                className={cx(
                  "border-b border-line px-3 py-1.5 font-medium whitespace-nowrap",
                  isNumeric(column) ? "text-right" : "text-left",
                )}
              >
                {column.name}{" "}
                <span className="font-normal text-faint">{column.type.toLowerCase()}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows never move
            <tr key={at} className="hover:bg-hover">
              {columns.map((column, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns never move
                <Cell key={index} value={row[index]} column={column} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Cell({ value, column }: { value: unknown; column: SqlColumn }) {
  const text = cellText(value);
  return (
    <td
      title={text !== undefined && text.length > 40 ? text : undefined}
      className={cx(
        "max-w-96 truncate border-b border-line px-3 py-1 font-mono",
        isNumeric(column) && "text-right tabular-nums",
      )}
    >
      {text === undefined ? <span className="text-faint italic">NULL</span> : text}
    </td>
  );
}
