import type { ProcessInfo } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { bytes } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { processesQuery } from "@/data/sandbox";
import {
  Badge,
  Button,
  type Column,
  EmptyState,
  ErrorNote,
  RelativeTime,
  SkeletonRows,
  Snippets,
  Table,
} from "@/ui";
import { Awake } from "../Awake";
import { ProcessSheet } from "./ProcessSheet";
import { ProcessState, SignalMenu } from "./ProcessState";
import { StartDialog } from "./StartDialog";

/** Processes that outlive the request that started them. */
export default function ProcessesPart({ sandbox }: { sandbox: SandboxInfo }) {
  return (
    <Awake sandbox={sandbox} what="its processes">
      <ProcessList sandbox={sandbox} />
    </Awake>
  );
}

function columnsOf(sandboxId: string): readonly Column<ProcessInfo>[] {
  return [
    {
      id: "cmd",
      header: "Command",
      width: "minmax(160px, 2fr)",
      sort: (row) => row.cmd,
      cell: (row) => (
        <span className="flex min-w-0 items-center gap-2">
          <span className="truncate font-mono text-xs" title={row.cmd}>
            {row.cmd}
          </span>
          {row.tag && <Badge>{row.tag}</Badge>}
        </span>
      ),
    },
    {
      id: "state",
      header: "State",
      width: "110px",
      sort: (row) => row.status,
      cell: (row) => <ProcessState info={row} />,
    },
    {
      id: "pid",
      header: "PID",
      width: "70px",
      align: "end",
      from: 560,
      sort: (row) => row.pid,
      cell: (row) => row.pid,
    },
    {
      id: "output",
      header: "Output",
      width: "96px",
      align: "end",
      from: 660,
      sort: (row) => row.stdout_bytes + row.stderr_bytes,
      cell: (row) => bytes(row.stdout_bytes + row.stderr_bytes),
    },
    {
      id: "started",
      header: "Started",
      width: "96px",
      align: "end",
      from: 460,
      sort: (row) => row.started_at,
      cell: (row) => <RelativeTime at={row.started_at} />,
    },
    {
      id: "signal",
      header: "Signal",
      headerHidden: true,
      width: "44px",
      align: "end",
      cell: (row) =>
        row.status === "running" ? <SignalMenu sandboxId={sandboxId} info={row} /> : null,
    },
  ];
}

function ProcessList({ sandbox }: { sandbox: SandboxInfo }) {
  const { id } = sandbox;
  const { data, error, refetch } = useQuery(processesQuery(id));
  const [opened, setOpened] = useState<string>();
  const [starting, setStarting] = useState(false);
  const columns = useMemo(() => columnsOf(id), [id]);
  const shown = data?.find((one) => one.id === opened);
  return (
    <div className="flex flex-col gap-3 py-4">
      <div className="flex items-center justify-between gap-2 px-4 md:px-6">
        <p className="text-muted">
          They go on after the request that started them, and sleep with the sandbox.
        </p>
        <Button variant="primary" icon={<Plus size={14} />} onClick={() => setStarting(true)}>
          Start a process
        </Button>
      </div>
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows rows={4} />}
      {data?.length === 0 && (
        <EmptyState title="No processes yet">
          <p>A server, a build or an agent that should go on while you are away:</p>
          <Snippets
            label="Start a process"
            snippets={{
              CLI: `pandastack sandbox spawn ${id.slice(0, 8)} --tag web -- python3 -m http.server 3000`,
              Python: 'server = sandbox.spawn("python3 -m http.server 3000", tag="web")',
              TypeScript:
                'const server = await sandbox.spawn("python3 -m http.server 3000", { tag: "web" });',
            }}
          />
        </EmptyState>
      )}
      {data !== undefined && data.length > 0 && (
        <Table
          label="Processes"
          rows={data}
          rowId={(row) => row.id}
          columns={columns}
          onOpen={(row) => setOpened(row.id)}
        />
      )}
      {shown && <ProcessSheet sandboxId={id} info={shown} onClose={() => setOpened(undefined)} />}
      {starting && (
        <StartDialog
          sandboxId={id}
          onClose={() => setStarting(false)}
          onStarted={(process) => {
            setOpened(process);
            void refetch();
          }}
        />
      )}
    </div>
  );
}
