import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Camera, Play, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { bytes, count, shortId } from "@/data/format";
import { keys, type SnapshotInfo, snapshotsQuery } from "@/data/queries";
import { dropRows } from "@/data/rows";
import {
  Badge,
  Button,
  type Column,
  ConfirmDialog,
  CopyId,
  EmptyState,
  ErrorNote,
  IconButton,
  PageHeader,
  RelativeTime,
  SearchInput,
  SkeletonRows,
  Snippets,
  Table,
} from "@/ui";
import { CreateDialog } from "../sandboxes/CreateDialog";

/** Saved states of sandboxes. */
export function Snapshots() {
  const { data, error, refetch } = useQuery(snapshotsQuery);
  const [query, setQuery] = useState("");
  const [starting, setStarting] = useState<string>();
  const [deleting, setDeleting] = useState<readonly SnapshotInfo[]>([]);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(
    () =>
      (data ?? []).filter((one) =>
        `${one.id} ${one.template} ${one.sandbox_id}`.includes(query.trim()),
      ),
    [data, query],
  );
  const columns = useMemo(() => columnsOf(setStarting, (one) => setDeleting([one])), []);

  return (
    <div className="flex h-full flex-col">
      <PageHeader
        title="Snapshots"
        aside={data && <Badge>{count(data.length)}</Badge>}
        description="Memory and disk of a sandbox at one moment. They outlive it, and start any number of new ones."
      />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows />}
      {data?.length === 0 && <NoSnapshots />}
      {data !== undefined && data.length > 0 && (
        <>
          <div className="flex flex-wrap items-center gap-2 px-4 pb-3 md:px-6">
            <SearchInput
              label="Filter snapshots"
              placeholder="Filter by id, template or sandbox"
              value={query}
              onChange={setQuery}
              className="min-w-44 flex-1 md:max-w-80"
            />
            {selected.size > 0 && (
              <Button
                variant="danger"
                icon={<Trash2 size={14} />}
                onClick={() => setDeleting(data.filter(({ id }) => selected.has(id)))}
              >
                Delete {selected.size}
              </Button>
            )}
          </div>
          <Table
            fill
            label="Snapshots"
            rows={rows}
            rowId={({ id }) => id}
            columns={columns}
            selected={selected}
            onSelect={setSelected}
            empty={<EmptyState title="No snapshot fits the filter" />}
          />
        </>
      )}
      {starting !== undefined && (
        <CreateDialog fromSnapshot={starting} onClose={() => setStarting(undefined)} />
      )}
      {deleting.length > 0 && (
        <Deleting
          snapshots={deleting}
          onClose={() => setDeleting([])}
          onDelete={() => setSelected(new Set())}
        />
      )}
    </div>
  );
}

function Deleting(props: {
  snapshots: readonly SnapshotInfo[];
  onClose: () => void;
  onDelete: () => void;
}) {
  const { snapshots, onClose, onDelete } = props;
  const queries = useQueryClient();
  const remove = (): void => {
    onDelete();
    for (const snapshot of snapshots) {
      void dropRows<SnapshotInfo>(queries, {
        queryKey: keys.snapshots,
        isGone: ({ id }) => id === snapshot.id,
        work: () => client.snapshots.delete(snapshot.id),
        ...(snapshots.length === 1 ? { done: `Snapshot ${shortId(snapshot.id)} deleted` } : {}),
      });
    }
  };
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={
        snapshots.length === 1 ? "Delete this snapshot?" : `Delete ${snapshots.length} snapshots?`
      }
      lost={[
        `${snapshots.map(({ id }) => shortId(id)).join(", ")}: memory and disk, ${bytes(
          snapshots.reduce((sum, { size_bytes = 0 }) => sum + size_bytes, 0),
        )}`,
        "Sandboxes that were started from it are not affected",
      ]}
      action="Delete"
      onConfirm={remove}
    />
  );
}

function SandboxLink({ id }: { id: string | undefined }) {
  if (id === undefined) return "–";
  return (
    <Link to="/sandboxes/$id" params={{ id }} className="font-mono text-xs hover:underline">
      {shortId(id)}
    </Link>
  );
}

function columnsOf(
  onStart: (id: string) => void,
  onDelete: (one: SnapshotInfo) => void,
): Column<SnapshotInfo>[] {
  return [
    {
      id: "id",
      header: "Snapshot",
      width: "minmax(120px, 1fr)",
      cell: (row) => <CopyId id={row.id} />,
    },
    {
      id: "sandbox",
      header: "Of sandbox",
      width: "minmax(100px, 1fr)",
      from: 520,
      cell: (row) => <SandboxLink id={row.sandbox_id} />,
    },
    {
      id: "template",
      header: "Template",
      width: "minmax(90px, 1fr)",
      from: 640,
      sort: (row) => row.template,
      cell: (row) => row.template,
    },
    {
      id: "size",
      header: "Size",
      width: "96px",
      align: "end",
      sort: (row) => row.size_bytes,
      cell: (row) => bytes(row.size_bytes),
    },
    {
      id: "created",
      header: "Saved",
      width: "96px",
      align: "end",
      from: 420,
      sort: (row) => row.created_at,
      cell: (row) => <RelativeTime at={row.created_at} />,
    },
    {
      id: "actions",
      header: "Actions",
      headerHidden: true,
      width: "84px",
      align: "end",
      cell: (row) => (
        <>
          <IconButton
            size="sm"
            label="Start a sandbox from it"
            icon={<Play size={14} />}
            onClick={() => onStart(row.id)}
          />
          <IconButton
            size="sm"
            label="Delete"
            icon={<Trash2 size={14} />}
            onClick={() => onDelete(row)}
          />
        </>
      ),
    },
  ];
}

function NoSnapshots() {
  return (
    <EmptyState icon={<Camera size={32} strokeWidth={1.25} />} title="No snapshots yet">
      <p>Save a sandbox with everything that runs in it, and start copies of it later:</p>
      <Snippets
        label="Save a snapshot"
        snippets={{
          CLI: "pandastack sandbox snapshot web\npandastack sandbox create --from-snapshot SNAPSHOT",
          Python: "snapshot = sandbox.snapshot()\nagain = Sandbox.from_snapshot(snapshot)",
          TypeScript:
            "const snapshot = await sandbox.snapshot();\nconst again = await Sandbox.fromSnapshot(snapshot);",
        }}
      />
    </EmptyState>
  );
}
