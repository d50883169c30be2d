import { NotFoundError } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate, useParams } from "@tanstack/react-router";
import { Trash2 } from "lucide-react";
import { type ReactNode, Suspense, useState } from "react";
import { useCommands } from "@/app/commands";
import { type DatabaseInfo, databaseQuery } from "@/data/databases";
import { buttonClass, cx, EmptyState, ErrorNote, Loading, lazyPart, SkeletonRows } from "@/ui";
import { BranchDialog } from "./BranchDialog";
import { ArchiveWarning } from "./backups/ArchiveNote";
import { Failed } from "./Failed";
import { DatabaseHeader } from "./Header";
import { Overview } from "./Overview";
import { RestartDialog } from "./RestartDialog";
import { DATABASE_TABS, type DatabaseTab, databaseTabOf } from "./tabs";

const ConsolePart = lazyPart(() => import("./console/Console"));
const BranchesPart = lazyPart(() => import("./Branches"));
const BackupsPart = lazyPart(() => import("./backups/Backups"));
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
  const [asked, setAsked] = useState<"branch" | "restart">();
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
      run: () => setAsked("branch"),
    },
    {
      id: "database-restart",
      group: "Database",
      title: "Restart this database",
      words: "update upgrade",
      run: () => setAsked("restart"),
    },
  ]);
  if (error instanceof NotFoundError) return <Gone id={id} />;
  if (error && !database) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (database === undefined) return <SkeletonRows rows={8} />;
  const branch = (): void => setAsked("branch");
  const restart = (): void => setAsked("restart");
  const close = (): void => setAsked(undefined);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <DatabaseHeader database={database} onBranch={branch} onRestart={restart} />
      {database.status === "failed" && <Failed database={database} />}
      {tab !== "backups" && <ArchiveWarning id={id} />}
      <TabLinks id={id} tab={tab} />
      <div className="relative min-h-0 flex-1">
        <div className="absolute inset-0 overflow-y-auto">
          <Suspense fallback={<Loading />}>
            {partOf(tab, { database, restart, sql, setSql })}
          </Suspense>
        </div>
      </div>
      {asked === "branch" && <BranchDialog database={database} onClose={close} />}
      {asked === "restart" && <RestartDialog database={database} onClose={close} />}
    </div>
  );
}

interface PartProps {
  readonly database: DatabaseInfo;
  readonly restart: () => void;
  /** The text of the console. It stays while another part is shown. */
  readonly sql: string;
  readonly setSql: (sql: string) => void;
}

function partOf(tab: DatabaseTab, props: PartProps): ReactNode {
  const { database, restart, sql, setSql } = props;
  switch (tab) {
    case "overview":
      return <Overview database={database} />;
    case "query":
      return <ConsolePart database={database} sql={sql} onSql={setSql} />;
    case "branches":
      return <BranchesPart database={database} />;
    case "backups":
      return <BackupsPart database={database} />;
    case "logs":
      return <LogsPart database={database} />;
    case "settings":
      return <SettingsPart database={database} onRestart={restart} />;
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
