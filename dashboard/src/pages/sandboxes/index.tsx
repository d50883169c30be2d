import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Box, Plus } from "lucide-react";
import { Suspense, useCallback, useDeferredValue, useMemo, useState } from "react";
import { useCommands } from "@/app/commands";
import type { SandboxSearch } from "@/app/router";
import { SERVER_URL } from "@/data/client";
import { count, megabytes, millis, plural, shortId } from "@/data/format";
import { MACHINE_KINDS, ofKind } from "@/data/kinds";
import { type SandboxInfo, sandboxesQuery } from "@/data/queries";
import {
  Badge,
  Button,
  type Column,
  CopyId,
  EmptyState,
  ErrorNote,
  lazyPart,
  PageHeader,
  RelativeTime,
  RowLink,
  SearchInput,
  Segmented,
  Select,
  SkeletonRows,
  Snippets,
  StateBadge,
  Table,
  useHotkey,
} from "@/ui";
import { BulkBar } from "./BulkBar";
import { countByGroup, filterSandboxes, labelsOf, nameOf } from "./filter";
import { RowMenu } from "./RowMenu";
import { createSnippets } from "./snippets";

// The list is there first; the form comes when somebody asks for it.
const CreateDialog = lazyPart(async () => ({
  default: (await import("./CreateDialog")).CreateDialog,
}));

const COLUMNS: readonly Column<SandboxInfo>[] = [
  {
    id: "name",
    header: "Sandbox",
    width: "minmax(150px, 1.4fr)",
    sort: (row) => nameOf(row) ?? row.id,
    cell: (row) => {
      const name = nameOf(row);
      return (
        <span className="flex items-center gap-2">
          <RowLink
            href={`/sandboxes/${row.id}`}
            className={name ? "truncate font-medium" : "font-mono text-xs"}
          >
            {name ?? shortId(row.id)}
          </RowLink>
          <CopyId
            id={row.id}
            iconOnly={!name}
            {...(name ? { className: "hidden sm:inline-flex" } : {})}
          />
        </span>
      );
    },
  },
  {
    id: "state",
    header: "State",
    width: "minmax(96px, 0.6fr)",
    sort: (row) => row.status,
    cell: (row) => <StateBadge state={row.status} title={row.status_reason} />,
  },
  {
    id: "template",
    header: "Template",
    width: "minmax(100px, 0.8fr)",
    from: 560,
    sort: (row) => row.template,
    cell: (row) => <span title={row.template}>{row.template}</span>,
  },
  {
    id: "labels",
    header: "Labels",
    width: "minmax(120px, 1.2fr)",
    from: 860,
    cell: (row) => (
      <span className="flex gap-1 overflow-hidden">
        {labelsOf(row).map(([key, value]) => (
          <Badge key={key}>
            {key}={value}
          </Badge>
        ))}
      </span>
    ),
  },
  {
    id: "size",
    header: "Size",
    width: "112px",
    from: 760,
    align: "end",
    sort: (row) => row.memory_mb,
    cell: (row) => `${row.cpu} × ${megabytes(row.memory_mb)}`,
  },
  {
    id: "boot",
    header: "Start",
    width: "84px",
    from: 680,
    align: "end",
    sort: (row) => row.boot_ms,
    cell: (row) => <span title={row.boot_mode}>{millis(row.boot_ms)}</span>,
  },
  {
    id: "created",
    header: "Created",
    width: "96px",
    from: 440,
    align: "end",
    sort: (row) => row.created_at,
    cell: (row) => <RelativeTime at={row.created_at} />,
  },
  {
    id: "menu",
    header: "Actions",
    headerHidden: true,
    width: "44px",
    align: "end",
    cell: (row) => <RowMenu key={row.id} sandbox={row} />,
  },
];

/** All sandboxes of the workspace. */
export function Sandboxes() {
  const search = useSearch({ from: "/app/sandboxes" });
  const navigate = useNavigate({ from: "/sandboxes" });
  const { data: every, error, refetch } = useQuery(sandboxesQuery);
  const kind = MACHINE_KINDS.find((one) => one === search.kind) ?? "sandbox";
  const data = useMemo(() => every && ofKind(every, kind), [every, kind]);
  const others = (every?.length ?? 0) - (data?.length ?? 0);
  const setSearch = useCallback(
    (fields: Search) =>
      void navigate({ search: (old) => clean({ ...old, ...fields }), replace: true }),
    [navigate],
  );
  const setCreating = (create: boolean): void => setSearch({ create: create || undefined });
  useHotkey("c", () => setCreating(true));
  return (
    <div className="flex h-full flex-col">
      <PageHeader
        title="Sandboxes"
        aside={data && <Badge>{count(data.length)}</Badge>}
        actions={
          <Button variant="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>
            Create
          </Button>
        }
      />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows rows={10} />}
      {data?.length === 0 && (
        <NoSandboxes
          onCreate={() => setCreating(true)}
          hidden={others}
          onShow={() => setSearch({ kind: "all" })}
        />
      )}
      {data !== undefined && data.length > 0 && (
        <List
          sandboxes={data}
          search={search}
          onSearch={setSearch}
          hasKinds={others > 0 || kind !== "sandbox"}
        />
      )}
      {search.create && (
        <Suspense>
          <CreateDialog onClose={() => setCreating(false)} />
        </Suspense>
      )}
    </div>
  );
}

function List(props: {
  sandboxes: readonly SandboxInfo[];
  search: Search;
  onSearch: (fields: Search) => void;
  /** Whether there are machines of databases. */
  hasKinds: boolean;
}) {
  const { sandboxes, search, onSearch, hasKinds } = props;
  const navigate = useNavigate({ from: "/sandboxes" });
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const query = useDeferredValue(search.q);
  const rows = useMemo(
    () => filterSandboxes(sandboxes, { q: query, state: search.state, template: search.template }),
    [sandboxes, query, search.state, search.template],
  );
  const picked = useMemo(
    () => sandboxes.filter(({ id }) => selected.has(id)),
    [sandboxes, selected],
  );
  const open = useCallback(
    (row: SandboxInfo) => void navigate({ to: "/sandboxes/$id", params: { id: row.id } }),
    [navigate],
  );
  useCommands([
    {
      id: "select-shown",
      group: "This page",
      title: "Select all shown sandboxes",
      run: () => setSelected(new Set(rows.map(({ id }) => id))),
    },
  ]);
  const showAll = () => onSearch({ q: undefined, state: undefined, template: undefined });
  return (
    <>
      {selected.size > 0 ? (
        <BulkBar sandboxes={picked} onClear={() => setSelected(new Set())} />
      ) : (
        <Filters
          sandboxes={sandboxes}
          shown={rows.length}
          search={search}
          onChange={onSearch}
          hasKinds={hasKinds}
        />
      )}
      <Table
        fill
        label="Sandboxes"
        rows={rows}
        rowId={idOf}
        columns={COLUMNS}
        onOpen={open}
        selected={selected}
        onSelect={setSelected}
        empty={
          <EmptyState
            title="No sandbox fits the filter"
            actions={<Button onClick={showAll}>Show all</Button>}
          />
        }
      />
    </>
  );
}

type Search = SandboxSearch;

function Filters(props: {
  sandboxes: readonly SandboxInfo[];
  shown: number;
  search: Search;
  onChange: (fields: Search) => void;
  hasKinds: boolean;
}) {
  const { sandboxes, shown, search, onChange, hasKinds } = props;
  const counts = useMemo(() => countByGroup(sandboxes), [sandboxes]);
  const templates = useMemo(
    () => [...new Set(sandboxes.map(({ template }) => template))].sort(),
    [sandboxes],
  );
  const label = (name: string, group: string): string => `${name} ${count(counts[group] ?? 0)}`;
  return (
    <div className="flex flex-wrap items-center gap-2 px-4 pb-3 md:px-6">
      <SearchInput
        label="Filter sandboxes"
        placeholder="Filter by id, template or label"
        value={search.q ?? ""}
        onChange={(q) => onChange({ q: q || undefined })}
        className="min-w-44 flex-1 md:max-w-80"
      />
      <Segmented
        label="State"
        value={search.state ?? "all"}
        onChange={(state) => onChange({ state: state === "all" ? undefined : state })}
        choices={[
          { value: "all", label: "All" },
          { value: "running", label: label("Running", "running") },
          { value: "paused", label: label("Paused", "paused") },
          { value: "asleep", label: label("Asleep", "asleep") },
          { value: "failed", label: label("Failed", "failed") },
        ]}
      />
      <Select
        aria-label="Template"
        value={search.template ?? ""}
        onChange={(event) => onChange({ template: event.target.value || undefined })}
        className="w-36! shrink-0"
      >
        <option value="">All templates</option>
        {templates.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </Select>
      {hasKinds && (
        <Select
          aria-label="Kind"
          value={search.kind ?? "sandbox"}
          onChange={({ target }) =>
            onChange({ kind: target.value === "sandbox" ? undefined : target.value })
          }
          className="w-44! shrink-0"
        >
          <option value="sandbox">Sandboxes</option>
          <option value="database">Machines of databases</option>
          <option value="all">All machines</option>
        </Select>
      )}
      {shown < sandboxes.length && (
        <span role="status" className="text-xs text-muted">
          {plural(shown, "sandbox", "sandboxes")} shown
        </span>
      )}
    </div>
  );
}

function NoSandboxes(props: { onCreate: () => void; hidden: number; onShow: () => void }) {
  const { onCreate, hidden, onShow } = props;
  return (
    <EmptyState
      icon={<Box size={32} strokeWidth={1.25} />}
      title="No sandboxes yet"
      actions={
        <>
          <Button variant="primary" icon={<Plus size={14} />} onClick={onCreate}>
            Create a sandbox
          </Button>
          {hidden > 0 && (
            <Button onClick={onShow}>
              Show {plural(hidden, "machine of databases", "machines of databases")}
            </Button>
          )}
        </>
      }
    >
      <p>A sandbox is a Linux machine of its own. Create one here, or from your code:</p>
      <Snippets
        label="Create a sandbox"
        snippets={createSnippets({ template: "mini", name: "web" }, SERVER_URL)}
      />
    </EmptyState>
  );
}

function idOf({ id }: SandboxInfo): string {
  return id;
}

/** Leaves out what is not set, so that the address stays short. */
function clean(search: Search): Search {
  const set = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
  return Object.fromEntries(set);
}
