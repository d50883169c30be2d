import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Database, Plus, Trash2 } from "lucide-react";
import { Suspense, useMemo, useState } from "react";
import {
  createdAt,
  type DatabaseInfo,
  databaseName,
  databasesQuery,
  deleteDatabase,
} from "@/data/databases";
import { count, shortId } from "@/data/format";
import { keys } from "@/data/queries";
import {
  Badge,
  Button,
  type Column,
  EmptyState,
  ErrorNote,
  IconButton,
  Loading,
  lazyPart,
  PageHeader,
  RelativeTime,
  RowLink,
  SearchInput,
  Segmented,
  SkeletonRows,
  Snippets,
  StateBadge,
  Table,
  useHotkey,
} from "@/ui";
import { type Deletion, useDelete } from "../useDelete";
import { CreateDialog } from "./CreateDialog";
import { deleteLosses } from "./losses";

const FamiliesPart = lazyPart(() => import("./Families"));

/** PostgreSQL servers, each in a machine of its own. */
export function Databases() {
  const { data, error, refetch } = useQuery(databasesQuery);
  const { create: creating = false, view } = useSearch({ from: "/app/databases" });
  const go = useNavigate({ from: "/databases" });
  const setCreating = (create: boolean): void =>
    void go({ search: ({ view }) => ({ view, ...(create ? { create } : {}) }), replace: true });
  useHotkey("c", () => setCreating(true));
  return (
    <div className="flex h-full min-h-0 flex-col">
      <PageHeader
        title="Databases"
        aside={data && <Badge>{count(data.length)}</Badge>}
        description="PostgreSQL servers that sleep when nobody uses them, and branch while they run."
        actions={
          <>
            <Segmented
              label="Shown as"
              value={view ?? "list"}
              onChange={(next) =>
                void go({ search: next === "tree" ? { view: next } : {}, replace: true })
              }
              choices={[
                { value: "list", label: "List" },
                { value: "tree", label: "Tree" },
              ]}
            />
            <Button variant="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>
              Create
            </Button>
          </>
        }
      />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows />}
      {data?.length === 0 && <NoDatabases />}
      {data !== undefined && data.length > 0 && view === undefined && <List databases={data} />}
      {data !== undefined && data.length > 0 && view === "tree" && (
        <Suspense fallback={<Loading />}>
          <FamiliesPart databases={data} />
        </Suspense>
      )}
      {creating && <CreateDialog onClose={() => setCreating(false)} />}
    </div>
  );
}

function List({ databases }: { databases: readonly DatabaseInfo[] }) {
  const navigate = useNavigate();
  const [query, setQuery] = useState("");
  const [askDelete, deleteDialog] = useDelete(deletionOf(databases));
  const names = useMemo(
    () => new Map(databases.map((one) => [one.id, databaseName(one)])),
    [databases],
  );
  const columns = useMemo(() => columnsOf(names, askDelete), [names, askDelete]);
  const rows = useMemo(() => {
    const word = query.trim().toLowerCase();
    return databases.filter(({ id, label = "", status }) =>
      `${id} ${label} ${status}`.toLowerCase().includes(word),
    );
  }, [databases, query]);
  return (
    <>
      <div className="px-4 pb-3 md:px-6">
        <SearchInput
          label="Filter databases"
          placeholder="Filter by label, id or status"
          value={query}
          onChange={setQuery}
          className="md:max-w-80"
        />
      </div>
      <Table
        fill
        label="Databases"
        rows={rows}
        rowId={({ id }) => id}
        columns={columns}
        onOpen={({ id }) => void navigate({ to: "/databases/$id", params: { id } })}
        empty={<EmptyState title="No database fits the filter" />}
      />
      {deleteDialog}
    </>
  );
}

function deletionOf(databases: readonly DatabaseInfo[]) {
  return (database: DatabaseInfo): Deletion<DatabaseInfo> => ({
    title: `Delete the database ${databaseName(database)}?`,
    lost: deleteLosses(database, databases),
    typeToConfirm: databaseName(database),
    action: "Delete the database",
    queryKey: keys.databases,
    isGone: ({ id }) => id === database.id,
    work: () => deleteDatabase(database.id),
    done: `Database ${databaseName(database)} deleted`,
  });
}

function columnsOf(
  names: ReadonlyMap<string, string>,
  onDelete: (database: DatabaseInfo) => void,
): Column<DatabaseInfo>[] {
  return [
    {
      id: "name",
      header: "Database",
      width: "minmax(110px, 1.5fr)",
      sort: databaseName,
      cell: (row) => (
        <RowLink href={`/databases/${row.id}`} className="font-medium">
          {databaseName(row)}
        </RowLink>
      ),
    },
    {
      id: "status",
      header: "Status",
      width: "minmax(92px, 0.8fr)",
      sort: (row) => row.status,
      cell: (row) => (
        <span className="flex flex-wrap items-center gap-x-2">
          <StateBadge state={row.status} title={row.error} />
          {row.update_available && <Badge tone="info">update</Badge>}
        </span>
      ),
    },
    {
      id: "size",
      header: "Size",
      width: "72px",
      align: "end",
      from: 520,
      sort: (row) => Number.parseInt(row.size ?? "0", 10),
      cell: (row) => row.size ?? "–",
    },
    {
      id: "sleep",
      header: "When idle",
      width: "96px",
      from: 760,
      sort: (row) => String(row.always_on),
      cell: (row) => (row.always_on ? "stays on" : "sleeps"),
    },
    {
      id: "from",
      header: "Made from",
      width: "minmax(110px, 1fr)",
      from: 640,
      cell: (row) => <Source id={row.branched_from || row.cloned_from} names={names} />,
    },
    {
      id: "created",
      header: "Created",
      width: "96px",
      align: "end",
      from: 440,
      sort: (row) => row.created_at ?? 0,
      cell: (row) => <RelativeTime at={createdAt(row)} />,
    },
    actionsColumn(onDelete),
  ];
}

function actionsColumn(onDelete: (database: DatabaseInfo) => void): Column<DatabaseInfo> {
  return {
    id: "actions",
    header: "Actions",
    headerHidden: true,
    width: "48px",
    align: "end",
    cell: (row) => (
      <IconButton
        size="sm"
        label={`Delete ${databaseName(row)}`}
        icon={<Trash2 size={14} />}
        onClick={() => onDelete(row)}
      />
    ),
  };
}

function Source(props: { id: string | undefined; names: ReadonlyMap<string, string> }) {
  const { id, names } = props;
  if (!id) return <span className="text-faint">–</span>;
  const name = names.get(id);
  if (name === undefined) {
    return <span className="text-muted">{shortId(id)}, deleted</span>;
  }
  return (
    <Link to="/databases/$id" params={{ id }} className="hover:underline">
      {name}
    </Link>
  );
}

function NoDatabases() {
  return (
    <EmptyState icon={<Database size={32} strokeWidth={1.25} />} title="No databases yet">
      <p>A PostgreSQL server is ready in seconds. Run one of these, or press Create:</p>
      <Snippets
        label="Create a database"
        snippets={{
          CLI: 'pandastack db create --label app\npandastack db psql app\npandastack db query app "select version()"',
          Python:
            'from pandastack import PandaStack\n\ndatabase = PandaStack().databases.create(label="app")\nprint(database.connection_url)',
          TypeScript:
            'import { PandaStack } from "@pandastack/sdk";\n\nconst database = await new PandaStack().databases.create({ label: "app" });\nconsole.log(database.connection_url);',
        }}
      />
    </EmptyState>
  );
}
