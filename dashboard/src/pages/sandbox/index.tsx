import { NotFoundError } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useNavigate, useParams } from "@tanstack/react-router";
import { Trash2, TriangleAlert } from "lucide-react";
import { type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import { useCommands } from "@/app/commands";
import { type SandboxInfo, sandboxQuery } from "@/data/queries";
import {
  buttonClass,
  cx,
  EmptyState,
  ErrorNote,
  Loading,
  lazyPart,
  Note,
  SkeletonRows,
} from "@/ui";
import { SandboxHeader } from "./Header";
import { SANDBOX_TABS, type SandboxTab, tabOf } from "./tabs";

const TerminalPart = lazyPart(() => import("./terminal/Terminal"));
const FilesPart = lazyPart(() => import("./files/Files"));
const CodePart = lazyPart(() => import("./code/Code"));
const CommandsPart = lazyPart(() => import("./commands/Commands"));
const ProcessesPart = lazyPart(() => import("./processes/Processes"));
const PortsPart = lazyPart(() => import("./ports/Ports"));
const LogsPart = lazyPart(() => import("./Logs"));
const MetricsPart = lazyPart(() => import("./metrics/Metrics"));
const EventsPart = lazyPart(() => import("./events/Events"));
const NetworkPart = lazyPart(() => import("./network/Network"));
const LifecyclePart = lazyPart(() => import("./Lifecycle"));

/** One sandbox. */
export function SandboxPage() {
  const { id, tab: named } = useParams({ strict: false });
  const tab = tabOf(named);
  if (id === undefined) return null;
  if (tab === undefined) {
    return <Navigate to="/sandboxes/$id/$tab" params={{ id, tab: "terminal" }} replace />;
  }
  // Another sandbox is another page: its shells and files have nothing to do with these.
  return <OneSandbox key={id} id={id} tab={tab} />;
}

function OneSandbox({ id, tab }: { id: string; tab: SandboxTab }) {
  const { data: sandbox, error, refetch } = useQuery(sandboxQuery(id));
  const [deleting, setDeleting] = useState(false);
  const navigate = useNavigate();
  useCommands(
    SANDBOX_TABS.map(({ tab: to, label }) => ({
      id: `tab-${to}`,
      group: "Sandbox",
      title: `Show ${label.toLowerCase()}`,
      run: () => void navigate({ to: "/sandboxes/$id/$tab", params: { id, tab: to } }),
    })),
  );
  if (error instanceof NotFoundError) return <Gone id={id} />;
  if (error && !sandbox) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (sandbox === undefined) return <SkeletonRows rows={8} />;
  if (sandbox.status === "deleted") return <Gone id={id} />;
  return (
    <div className="flex h-full min-h-0 flex-col">
      <SandboxHeader sandbox={sandbox} deleting={deleting} onDeleting={setDeleting} />
      {sandbox.status === "failed" && <Failed sandbox={sandbox} />}
      {sandbox.database_id && <OfDatabase id={sandbox.database_id} />}
      <TabLinks id={id} tab={tab} />
      <Parts sandbox={sandbox} tab={tab} onDelete={() => setDeleting(true)} />
    </div>
  );
}

/** Says that the sandbox is not a plain one, and leads to what people look for. */
function OfDatabase({ id }: { id: string }) {
  return (
    <Note tone="info">
      This is the machine of a database.{" "}
      <Link to="/databases/$id" params={{ id }} className="underline">
        Open the database
      </Link>
    </Note>
  );
}

function TabLinks({ id, tab }: { id: string; tab: SandboxTab }) {
  const bar = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the shown part must be visible
  useEffect(() => {
    bar.current
      ?.querySelector("[aria-current]")
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [tab]);
  return (
    <nav
      ref={bar}
      aria-label="Parts of the sandbox"
      className="flex shrink-0 gap-1 overflow-x-auto border-b border-line px-2 md:px-4"
    >
      {SANDBOX_TABS.map(({ tab: to, label, icon: Icon }) => (
        <Link
          key={to}
          to="/sandboxes/$id/$tab"
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

function Parts(props: { sandbox: SandboxInfo; tab: SandboxTab; onDelete: () => void }) {
  const { sandbox, tab, onDelete } = props;
  // Shells go on while another part is shown, once they were opened.
  const [hadTerminal, setHadTerminal] = useState(tab === "terminal");
  if (tab === "terminal" && !hadTerminal) setHadTerminal(true);
  return (
    <div className="relative min-h-0 flex-1">
      {hadTerminal && (
        <div className={cx("absolute inset-0", tab !== "terminal" && "invisible")}>
          <Suspense fallback={<Loading />}>
            <TerminalPart sandbox={sandbox} shown={tab === "terminal"} />
          </Suspense>
        </div>
      )}
      {tab !== "terminal" && (
        <div className="absolute inset-0 overflow-y-auto">
          <Suspense fallback={<Loading />}>{partOf(tab, sandbox, onDelete)}</Suspense>
        </div>
      )}
    </div>
  );
}

function partOf(tab: SandboxTab, sandbox: SandboxInfo, onDelete: () => void): ReactNode {
  switch (tab) {
    case "files":
      return <FilesPart sandbox={sandbox} />;
    case "code":
      return <CodePart sandbox={sandbox} />;
    case "commands":
      return <CommandsPart sandbox={sandbox} />;
    case "processes":
      return <ProcessesPart sandbox={sandbox} />;
    case "ports":
      return <PortsPart sandbox={sandbox} />;
    case "logs":
      return <LogsPart sandbox={sandbox} />;
    case "metrics":
      return <MetricsPart sandbox={sandbox} />;
    case "events":
      return <EventsPart sandbox={sandbox} />;
    case "network":
      return <NetworkPart sandbox={sandbox} />;
    case "settings":
      return <LifecyclePart sandbox={sandbox} onDelete={onDelete} />;
    case "terminal":
      return null;
  }
}

function Failed({ sandbox }: { sandbox: SandboxInfo }) {
  return (
    <div
      role="alert"
      className="mx-4 mb-2 flex items-start gap-2 rounded-md bg-danger-soft px-3 py-2 md:mx-6"
    >
      <TriangleAlert size={16} className="mt-0.5 shrink-0 text-danger" aria-hidden="true" />
      <span className="min-w-0 break-words">
        The machine failed{sandbox.status_reason ? `: ${sandbox.status_reason}` : "."} Its logs and
        events tell more.
      </span>
    </div>
  );
}

function Gone({ id }: { id: string }) {
  return (
    <EmptyState
      icon={<Trash2 size={32} strokeWidth={1.25} />}
      title="This sandbox is gone"
      actions={
        <>
          <Link to="/sandboxes" className={buttonClass("primary")}>
            All sandboxes
          </Link>
          <Link to="/tree/$id" params={{ id }} className={buttonClass()}>
            Its family
          </Link>
        </>
      }
    >
      <p>
        <code className="font-mono text-xs break-all">{id}</code> was deleted, or never existed in
        this workspace. Its forks go on without it.
      </p>
    </EmptyState>
  );
}
