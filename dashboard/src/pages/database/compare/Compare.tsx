import { useQuery } from "@tanstack/react-query";
import { ArrowDownToLine, ArrowLeftRight, RefreshCw } from "lucide-react";
import { useMemo, useState } from "react";
import { type DatabaseInfo, databaseName, schemaDiffQuery } from "@/data/databases";
import { plural, shortId } from "@/data/format";
import {
  Button,
  cx,
  Dialog,
  EmptyState,
  ErrorNote,
  Field,
  IconButton,
  Loading,
  Note,
  Select,
} from "@/ui";
import { save } from "../../usage/save";
import { changesOf, type DiffKind } from "./diff";

/** More are not drawn; the file has them all. */
const LINES_MAX = 5000;

const TONES: Record<DiffKind, string> = {
  added: "bg-ok-soft text-ok",
  removed: "bg-danger-soft text-danger",
  place: "bg-info-soft text-info",
  same: "text-muted",
};

interface Pair {
  readonly from: string;
  readonly to: string;
}

/** The schemas of two databases, side by side in one text. */
export function Compare(props: {
  databases: readonly DatabaseInfo[];
  start: Pair;
  onClose: () => void;
}) {
  const { databases, start, onClose } = props;
  const [pair, setPair] = useState(start);
  const query = useQuery(schemaDiffQuery(pair.from, pair.to));
  return (
    <Dialog
      open
      place="side"
      onClose={onClose}
      title="Compare schemas"
      description="Tables, indexes and functions; rows are not compared"
    >
      <div className="flex flex-col gap-4">
        <div className="flex flex-wrap items-end gap-2">
          <Choice
            label="From"
            id={pair.from}
            databases={databases}
            onChange={(from) => setPair({ ...pair, from })}
          />
          <IconButton
            label="Swap"
            icon={<ArrowLeftRight size={14} />}
            onClick={() => setPair({ from: pair.to, to: pair.from })}
          />
          <Choice
            label="To"
            id={pair.to}
            databases={databases}
            onChange={(to) => setPair({ ...pair, to })}
          />
          <Button
            icon={<RefreshCw size={14} />}
            loading={query.isFetching}
            onClick={() => void query.refetch()}
          >
            Look again
          </Button>
        </div>
        {query.error && (
          <ErrorNote
            error={query.error}
            onRetry={() => void query.refetch()}
            title="They could not be compared"
          />
        )}
        {query.data === undefined && !query.error && <Loading label="Reading both schemas" />}
        {query.data?.same && (
          <EmptyState title="The schemas are the same">
            <p>Their rows may differ.</p>
          </EmptyState>
        )}
        {query.data && !query.data.same && (
          <Changes
            diff={query.data.diff}
            from={nameOf(databases, query.data.from)}
            to={nameOf(databases, query.data.to)}
          />
        )}
      </div>
    </Dialog>
  );
}

function Choice(props: {
  label: string;
  id: string;
  databases: readonly DatabaseInfo[];
  onChange: (id: string) => void;
}) {
  const { label, id, databases, onChange } = props;
  return (
    <Field label={label} className="min-w-0 flex-1 basis-36">
      {(control) => (
        <Select {...control} value={id} onChange={(event) => onChange(event.target.value)}>
          {databases.map((one) => (
            <option key={one.id} value={one.id}>
              {databaseName(one)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}

function Changes({ diff, from, to }: { diff: string; from: string; to: string }) {
  const { lines, added, removed } = useMemo(() => changesOf(diff), [diff]);
  return (
    <section aria-label="Differences" className="flex flex-col gap-2">
      <header className="flex flex-wrap items-center gap-2">
        <p className="min-w-0 flex-1 basis-52 break-words">
          <span className="text-ok">+ {plural(added, "line")}</span> only in {to},{" "}
          <span className="text-danger">− {plural(removed, "line")}</span> only in {from}
        </p>
        <Button
          size="sm"
          icon={<ArrowDownToLine size={14} />}
          onClick={() => save(`${from}-${to}.diff`, diff, "text/plain")}
        >
          Save
        </Button>
      </header>
      {lines.length > LINES_MAX && (
        <Note tone="warn">
          The first {plural(LINES_MAX, "line")} of {plural(lines.length, "line")}. Save the file to
          see all.
        </Note>
      )}
      <pre
        role="region"
        aria-label="Difference of the schemas"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        className="overflow-x-auto rounded-md border border-line bg-panel py-1 font-mono text-xs leading-5"
      >
        <code className="block w-max min-w-full">
          {lines.slice(0, LINES_MAX).map(({ kind, text }, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the lines never move
            <span key={at} data-diff={kind} className={cx("block px-3", TONES[kind])}>
              {text}
              {"\n"}
            </span>
          ))}
        </code>
      </pre>
    </section>
  );
}

function nameOf(databases: readonly DatabaseInfo[], id: string): string {
  const known = databases.find((one) => one.id === id);
  return known === undefined ? shortId(id) : databaseName(known);
}
