import type { models } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ExternalLink, Link2, Plus, X } from "lucide-react";
import { useMemo, useState } from "react";
import { sandboxHandle } from "@/data/client";
import { keys, type SandboxInfo } from "@/data/queries";
import { portsQuery } from "@/data/sandbox";
import {
  Badge,
  Button,
  type Column,
  EmptyState,
  ErrorNote,
  IconButton,
  SkeletonRows,
  Snippets,
  Table,
  Tooltip,
  toast,
} from "@/ui";
import { Awake } from "../Awake";
import { DeclareDialog } from "./DeclareDialog";
import { ShareDialog } from "./ShareDialog";

/** The ports of a sandbox: open them, or share a link to them. */
export default function PortsPart({ sandbox }: { sandbox: SandboxInfo }) {
  return (
    <Awake sandbox={sandbox} what="its ports">
      <PortList sandboxId={sandbox.id} />
    </Awake>
  );
}

function PortList({ sandboxId }: { sandboxId: string }) {
  const queries = useQueryClient();
  const { data, error, refetch } = useQuery(portsQuery(sandboxId));
  const [sharing, setSharing] = useState<number>();
  const [declaring, setDeclaring] = useState(false);
  const columns = useMemo(
    () =>
      columnsOf(
        setSharing,
        async (port) => {
          try {
            await sandboxHandle(sandboxId).ports.remove(port);
            await queries.invalidateQueries({ queryKey: keys.sandboxPart(sandboxId, "ports") });
          } catch (failure) {
            toast.error(failure);
          }
        },
        sandboxId,
      ),
    [sandboxId, queries],
  );
  return (
    <div className="flex flex-col gap-3 py-4">
      <div className="flex flex-wrap items-center justify-between gap-2 px-4 md:px-6">
        <p className="text-muted">
          A program that listens on a port can be opened, and shared with a signed link.
        </p>
        <span className="flex gap-2">
          <Button icon={<Plus size={14} />} onClick={() => setDeclaring(true)}>
            Declare a port
          </Button>
          <Button icon={<Link2 size={14} />} onClick={() => setSharing(0)}>
            Share a port
          </Button>
        </span>
      </div>
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows rows={3} />}
      {data?.length === 0 && (
        <EmptyState title="Nothing listens yet">
          <p>Start a server in the sandbox, and its port appears here:</p>
          <Snippets
            label="Start a server"
            snippets={{
              CLI: `pandastack sandbox spawn ${sandboxId.slice(0, 8)} -- python3 -m http.server 3000\npandastack sandbox preview ${sandboxId.slice(0, 8)} 3000`,
              Python:
                'sandbox.spawn("python3 -m http.server 3000")\nprint(sandbox.create_preview(3000)["url"])',
              TypeScript:
                'await sandbox.spawn("python3 -m http.server 3000");\nconsole.log((await sandbox.ports.share(3000)).url);',
            }}
          />
        </EmptyState>
      )}
      {data !== undefined && data.length > 0 && (
        <Table label="Ports" rows={data} rowId={(row) => String(row.port)} columns={columns} />
      )}
      {sharing !== undefined && (
        <ShareDialog sandboxId={sandboxId} port={sharing} onClose={() => setSharing(undefined)} />
      )}
      {declaring && <DeclareDialog sandboxId={sandboxId} onClose={() => setDeclaring(false)} />}
    </div>
  );
}

function columnsOf(
  onShare: (port: number) => void,
  onRemove: (port: number) => Promise<void>,
  sandboxId: string,
): readonly Column<models.Port>[] {
  return [
    {
      id: "port",
      header: "Port",
      width: "90px",
      sort: (row) => row.port,
      cell: (row) => <span className="font-mono font-medium">{row.port}</span>,
    },
    {
      id: "state",
      header: "State",
      width: "minmax(110px, 0.8fr)",
      cell: (row) => <PortState port={row} />,
    },
    {
      id: "process",
      header: "Program",
      width: "minmax(80px, 1fr)",
      from: 480,
      cell: (row) => row.process ?? "–",
    },
    {
      id: "label",
      header: "Label",
      width: "minmax(80px, 1fr)",
      from: 640,
      cell: (row) => row.label ?? "–",
    },
    {
      id: "actions",
      header: "Actions",
      headerHidden: true,
      width: "minmax(116px, 216px)",
      align: "end",
      cell: (row) => (
        <PortActions
          port={row}
          onOpen={() => void openPort(sandboxId, row.port)}
          onShare={() => onShare(row.port)}
          onRemove={() => void onRemove(row.port)}
        />
      ),
    },
  ];
}

function PortState({ port }: { port: models.Port }) {
  if (!port.loopback_only) {
    return (
      <Badge tone={port.listening ? "ok" : "neutral"}>
        {port.listening ? "listening" : "nothing listens"}
      </Badge>
    );
  }
  return (
    <Tooltip text="The program listens on 127.0.0.1 only. Let it listen on 0.0.0.0.">
      <span>
        <Badge tone="warn">loopback only</Badge>
      </span>
    </Tooltip>
  );
}

function PortActions(props: {
  port: models.Port;
  onOpen: () => void;
  onShare: () => void;
  onRemove: () => void;
}) {
  const { port, onOpen, onShare, onRemove } = props;
  return (
    <span className="inline-flex gap-1">
      <Button
        size="sm"
        icon={<ExternalLink size={14} />}
        disabled={!port.listening || port.loopback_only === true}
        onClick={onOpen}
      >
        <span className="max-sm:sr-only">Open</span>
      </Button>
      <Button size="sm" icon={<Link2 size={14} />} onClick={onShare}>
        <span className="max-sm:sr-only">Share</span>
      </Button>
      {port.source === "user" ? (
        <IconButton
          size="sm"
          label={`Remove the declaration of ${port.port}`}
          icon={<X size={14} />}
          onClick={onRemove}
        />
      ) : (
        <span className="w-7" />
      )}
    </span>
  );
}

/** Opens a port in a new window, with a link of an hour. The window is made at the click. */
async function openPort(sandboxId: string, port: number): Promise<void> {
  const page = window.open("about:blank", "_blank");
  if (page) page.opener = null;
  try {
    const { url } = await sandboxHandle(sandboxId).ports.share(port, { ttlSeconds: 3600 });
    if (page) page.location.replace(url);
    else window.location.assign(url);
  } catch (error) {
    page?.close();
    toast.error(error);
  }
}
