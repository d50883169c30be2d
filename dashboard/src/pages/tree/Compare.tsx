import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { ArrowLeftRight, RefreshCw } from "lucide-react";
import { useMemo, useState } from "react";
import { bytes, plural } from "@/data/format";
import { diffQuery } from "@/data/sandbox";
import {
  Badge,
  Button,
  type Column,
  Dialog,
  EmptyState,
  ErrorNote,
  Loading,
  Note,
  SearchInput,
  Table,
  type Tone,
} from "@/ui";
import type { FamilyNode } from "./family";

const TONES: Record<string, Tone> = { added: "ok", removed: "danger", changed: "warn" };

const COLUMNS: readonly Column<models.FileDiff>[] = [
  {
    id: "change",
    header: "Change",
    width: "92px",
    sort: (row) => row.change,
    cell: (row) => <Badge tone={TONES[row.change] ?? "neutral"}>{row.change}</Badge>,
  },
  {
    id: "path",
    header: "Path",
    width: "minmax(160px, 1fr)",
    sort: (row) => row.path,
    cell: (row) => (
      <span className="font-mono text-xs" title={row.path}>
        {row.path}
        {row.mode === "d" && "/"}
      </span>
    ),
  },
  {
    id: "size",
    header: "Size",
    width: "150px",
    align: "end",
    from: 420,
    sort: (row) => (row.with_size ?? 0) - (row.size ?? 0),
    cell: (row) => (
      <span className="text-xs">
        {row.size !== undefined && bytes(row.size)}
        {row.size !== undefined && row.with_size !== undefined && " → "}
        {row.with_size !== undefined && bytes(row.with_size)}
      </span>
    ),
  },
];

/** What differs between two branches: their files and their processes. */
export function Compare(props: {
  node: FamilyNode;
  other: FamilyNode;
  onSwap: () => void;
  onClose: () => void;
}) {
  const { node, other, onSwap, onClose } = props;
  const { data, error, isFetching, refetch } = useQuery(diffQuery(node.id, other.id));
  return (
    <Dialog
      open
      place="side"
      onClose={onClose}
      title="Compare"
      description={
        <span className="flex flex-wrap items-center gap-2">
          From <strong className="text-ink">{node.name}</strong> to{" "}
          <strong className="text-ink">{other.name}</strong>
          <Button size="sm" icon={<ArrowLeftRight size={14} />} onClick={onSwap}>
            Swap
          </Button>
          <Button
            size="sm"
            icon={<RefreshCw size={14} />}
            loading={isFetching}
            onClick={() => void refetch()}
          >
            Look again
          </Button>
        </span>
      }
    >
      {error && (
        <ErrorNote
          error={error}
          onRetry={() => void refetch()}
          title="They could not be compared"
        />
      )}
      {data === undefined && !error && <Loading label="Looking into both machines" />}
      {data && (
        <div className="flex flex-col gap-4">
          <ChangedFiles diff={data} />
          <Programs title={`Only in ${node.name}`} list={data.processes} />
          <Programs title={`Only in ${other.name}`} list={data.with_processes} />
        </div>
      )}
    </Dialog>
  );
}

function ChangedFiles({ diff }: { diff: models.BranchDiff }) {
  const [filter, setFilter] = useState("");
  const files = useMemo(
    () => diff.files.filter(({ path }) => path.toLowerCase().includes(filter.toLowerCase())),
    [diff, filter],
  );
  return (
    <section aria-label="Files" className="flex flex-col gap-2">
      <header className="flex flex-wrap items-center gap-2">
        <h3 className="flex-1 font-semibold">{plural(diff.files.length, "file")} differ</h3>
        {diff.files.length > 8 && (
          <SearchInput label="Filter paths" value={filter} onChange={setFilter} />
        )}
      </header>
      {diff.truncated && (
        <Note tone="warn">
          There are more than were compared. Look below one folder with the API’s path.
        </Note>
      )}
      {diff.files.length === 0 ? (
        <EmptyState title="No file differs">
          <p>Compared: {diff.paths.join(", ")}</p>
        </EmptyState>
      ) : (
        <div className="overflow-hidden rounded-md border border-line">
          <Table
            label="Files that differ"
            rows={files}
            rowId={(row) => row.path}
            columns={COLUMNS}
            rowHeight={32}
          />
        </div>
      )}
    </section>
  );
}

function Programs({ title, list }: { title: string; list: readonly models.RunningProgram[] }) {
  return (
    <section aria-label={title} className="flex flex-col gap-1">
      <h3 className="font-semibold">
        {title}: {plural(list.length, "process", "processes")}
      </h3>
      <ul className="flex flex-col">
        {list.map(({ pid, command }) => (
          <li key={pid} className="flex gap-3 border-b border-line py-1 font-mono text-xs">
            <span className="w-14 shrink-0 text-right text-muted">{pid}</span>
            <span className="min-w-0 break-all">{command}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
