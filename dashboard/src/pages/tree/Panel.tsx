import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import {
  ExternalLink,
  GitCompareArrows,
  GitFork,
  type LucideIcon,
  Trash2,
  Trophy,
} from "lucide-react";
import { bytes, megabytes, millis } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { machineQuery } from "@/data/sandbox";
import { Button, buttonClass, CopyId, RelativeTime, StateBadge } from "@/ui";
import { labelsOf } from "../sandboxes/filter";
import type { FamilyNode } from "./family";
import { actionsOf, type NodeAction } from "./NodeMenu";

const BUTTONS: readonly { action: NodeAction; label: string; icon: LucideIcon }[] = [
  { action: "fork", label: "Fork", icon: GitFork },
  { action: "fork3", label: "Fork three ways", icon: GitFork },
  { action: "promote", label: "Promote…", icon: Trophy },
  { action: "compare", label: "Compare with…", icon: GitCompareArrows },
  { action: "delete", label: "Delete…", icon: Trash2 },
];

/** What is known of the chosen node, and its actions as buttons, for fingers. */
export function Panel({
  node,
  onAction,
}: {
  node: FamilyNode;
  onAction: (action: NodeAction) => void;
}) {
  const can = actionsOf(node);
  const { info } = node;
  return (
    <aside
      aria-label="Chosen sandbox"
      className="flex shrink-0 flex-col gap-3 overflow-y-auto border-line bg-panel p-4 max-md:max-h-[45%] max-md:border-t md:w-72 md:border-l"
    >
      <header className="flex flex-col gap-1">
        <h2 className="text-base font-semibold break-words">{node.name}</h2>
        <span className="flex items-center gap-3">
          <StateBadge state={node.status} title={info?.status_reason} />
          <CopyId id={node.id} />
        </span>
      </header>
      <Facts node={node} />
      <div className="flex flex-wrap gap-2 md:flex-col md:items-stretch">
        {can.has("open") && (
          <Link
            to="/sandboxes/$id/$tab"
            params={{ id: node.id, tab: "terminal" }}
            className={buttonClass("primary")}
          >
            <ExternalLink size={14} /> Open
          </Link>
        )}
        {BUTTONS.filter(({ action }) => can.has(action)).map(({ action, label, icon: Icon }) => (
          <Button
            key={action}
            {...(action === "delete" ? { variant: "danger" } : {})}
            icon={<Icon size={14} />}
            onClick={() => onAction(action)}
          >
            {label}
          </Button>
        ))}
      </div>
      {info === undefined && (
        <p className="text-muted">It is deleted. It is shown because sandboxes came from it.</p>
      )}
    </aside>
  );
}

/** The size of its machine, and the memory that it holds on the host now. */
function Held({ info }: { info: SandboxInfo }) {
  const hasMachine = info.status === "running" || info.status === "paused";
  const { data } = useQuery({ ...machineQuery(info.id), enabled: hasMachine });
  return (
    <>
      <dt className="text-muted">Size</dt>
      <dd>
        {info.cpu} × {megabytes(info.memory_mb)}
      </dd>
      {hasMachine && data && (
        <>
          <dt className="text-muted">Memory held</dt>
          <dd>{bytes(data.host_rss_bytes)}</dd>
        </>
      )}
    </>
  );
}

function Facts({ node }: { node: FamilyNode }) {
  const { info } = node;
  return (
    <dl className="grid grid-cols-[6rem_minmax(0,1fr)] gap-y-1 max-md:hidden">
      <dt className="text-muted">Template</dt>
      <dd>{node.template || "–"}</dd>
      <dt className="text-muted">Created</dt>
      <dd>
        <RelativeTime at={node.createdAt} />
      </dd>
      {info && <Held info={info} />}
      {info?.boot_ms !== undefined && (
        <>
          <dt className="text-muted">Start</dt>
          <dd>
            {millis(info.boot_ms)} {info.boot_mode && `(${info.boot_mode})`}
          </dd>
        </>
      )}
      {info &&
        labelsOf(info).map(([key, value]) => (
          <div key={key} className="contents">
            <dt className="truncate text-muted">{key}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
    </dl>
  );
}
