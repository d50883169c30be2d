import { NotFoundError } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate, useParams } from "@tanstack/react-router";
import { Trash2, TriangleAlert } from "lucide-react";
import { type ReactNode, Suspense, useState } from "react";
import { useCommands } from "@/app/commands";
import { type DatabaseInfo, databaseQuery } from "@/data/databases";
import { buttonClass, cx, EmptyState, ErrorNote, Loading, lazyPart, SkeletonRows } from "@/ui";
import { BranchDialog } from "./BranchDialog";
import { DatabaseHeader } from "./Header";
import { Overview } from "./Overview";
import { DATABASE_TABS, type DatabaseTab, databaseTabOf } from "./tabs";

const ConsolePart = lazyPart(() => import("./console/Console"));
const BranchesPart = lazyPart(() => import("./Branches"));
const LogsPart = lazyPart(() => import("./Logs"));
const SettingsPart = lazyPart(() => import("./Settings"));

/** One database. */
export function DatabasePage() {
  const { id, tab: named } = useParams({ strict: false });
  const tab = databaseTabOf(named);
  if (id === undefined) return null;
  if (tab === undefined) {
    return <Navigate to="/databases/$id/$tab" params={{ id, tab: "overview" }} replace />;
  }
  // Another database is another page: its statements and secrets have nothing to do with these.
  return <OneDatabase key={id} id={id} tab={tab} />;
}

function OneDatabase({ id, tab }: { id: string; tab: DatabaseTab }) {
  const { data: database, error, refetch } = useQuery(databaseQuery(id));
  const [branching, setBranching] = useState(false);
  const [sql, setSql] = useState("");
  const navigate = useNavigate();
  useCommands([
    ...DATABASE_TABS.map(({ tab: to, label }) => ({
      id: `database-tab-${to}`,
      group: "Database",
      title: `Show ${label.toLowerCase()}`,
      run: () => void navigate({ to: "/databases/$id/$tab", params: { id, tab: to } }),
    })),
    {
      id: "database-branch",
      group: "Database",
      title: "Branch this database",
      words: "copy fork clone",
      run: () => setBranching(true),
    },
  ]);
  if (error instanceof NotFoundError) return <Gone id={id} />;
  if (error && !database) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (database === undefined) return <SkeletonRows rows={8} />;
  const branch = (): void => setBranching(true);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <DatabaseHeader database={database} onBranch={branch} />
      {database.status === "failed" && <Failed database={database} />}
      <TabLinks id={id} tab={tab} />
      <div className="relative min-h-0 flex-1">
        <div className="absolute inset-0 overflow-y-auto">
          <Suspense fallback={<Loading />}>
            {partOf(tab, { database, branch, sql, setSql })}
          </Suspense>
        </div>
      </div>
      {branching && <BranchDialog database={database} onClose={() => setBranching(false)} />}
    </div>
  );
}

interface PartProps {
  readonly database: DatabaseInfo;
  readonly branch: () => void;
  /** The text of the console. It stays while another part is shown. */
  readonly sql: string;
  readonly setSql: (sql: string) => void;
}

function partOf(tab: DatabaseTab, { database, branch, sql, setSql }: PartProps): ReactNode {
  switch (tab) {
    case "overview":
      return <Overview database={database} />;
    case "query":
      return <ConsolePart database={database} sql={sql} onSql={setSql} />;
    case "branches":
      return <BranchesPart database={database} onBranch={branch} />;
    case "logs":
      return <LogsPart database={database} />;
    case "settings":
      return <SettingsPart database={database} />;
  }
}

function TabLinks({ id, tab }: { id: string; tab: DatabaseTab }) {
  return (
    <nav
      aria-label="Parts of the database"
      className="flex shrink-0 gap-1 overflow-x-auto border-b border-line px-2 md:px-4"
    >
      {DATABASE_TABS.map(({ tab: to, label, icon: Icon }) => (
        <Link
          key={to}
          to="/databases/$id/$tab"
          params={{ id, tab: to }}
          aria-current={to === tab ? "page" : undefined}
          className={cx(
            "-mb-px flex shrink-0 items-center gap-1.5 border-b-2 px-2 py-2 text-sm focus-visible:outline-offset-[-2px]",
            to === tab ? "border-accent text-ink" : "border-transparent text-muted hover:text-ink",
          )}
        >
          <Icon size={14} aria-hidden="true" />
          {label}
        </Link>
      ))}
    </nav>
  );
}

function Failed({ database }: { database: DatabaseInfo }) {
  return (
    <div
      role="alert"
      className="mx-4 mb-2 flex items-start gap-2 rounded-md bg-danger-soft px-3 py-2 md:mx-6"
    >
      <TriangleAlert size={16} className="mt-0.5 shrink-0 text-danger" aria-hidden="true" />
      <span className="min-w-0 break-words">
        The database failed{database.error ? `: ${database.error}` : "."}
      </span>
    </div>
  );
}

function Gone({ id }: { id: string }) {
  return (
    <EmptyState
      icon={<Trash2 size={32} strokeWidth={1.25} />}
      title="This database is gone"
      actions={
        <Link to="/databases" className={buttonClass("primary")}>
          All databases
        </Link>
      }
    >
      <p>
        <code className="font-mono text-xs break-all">{id}</code> was deleted, or never existed in
        this workspace. Its branches go on without it.
      </p>
    </EmptyState>
  );
}
