import { Link, useNavigate } from "@tanstack/react-router";
import { ExternalLink } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { buttonClass, CopyId, RelativeTime, StateBadge } from "@/ui";
import { layoutTrees } from "../../tree/layout";
import { Picture } from "../../tree/Picture";
import { type Lineage, type LineageNode, offspringOf } from "./lineage";

/** Families of databases as a picture, and what is known of the chosen one. */
export function LineagePicture(props: {
  label: string;
  nodes: Lineage;
  roots: readonly string[];
  /** The database whose page this is. */
  current?: string;
  /** Actions of the chosen one. */
  actions?: (node: LineageNode) => ReactNode;
}) {
  const { label, nodes, roots, current, actions } = props;
  const navigate = useNavigate();
  const [chosen, setChosen] = useState(current);
  const tree = useMemo(() => {
    const offspring = offspringOf(nodes);
    return layoutTrees(roots, (id) => offspring.get(id) ?? []);
  }, [nodes, roots]);
  const node = nodes.get(chosen ?? "");
  const open = (id: string): boolean => {
    const isThere = nodes.get(id)?.info !== undefined;
    if (isThere) void navigate({ to: "/databases/$id", params: { id } });
    return isThere;
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col border-t border-line md:flex-row">
      <Picture
        label={label}
        tree={tree}
        nodes={nodes}
        selected={chosen}
        onSelect={setChosen}
        onKey={(id, key) => (key === "o" || key === "Enter") && open(id)}
      >
        <Legend />
      </Picture>
      {node && (
        <Panel node={node} parent={nodes.get(node.parentId ?? "")} current={current}>
          {actions?.(node)}
        </Panel>
      )}
    </div>
  );
}

function Legend() {
  return (
    <ul
      aria-label="Lines of the picture"
      className="pointer-events-none absolute right-14 bottom-3 flex gap-3 rounded-md bg-panel px-2 py-1 text-xs text-muted"
    >
      <li className="flex items-center gap-1.5">
        <Line /> branch
      </li>
      <li className="flex items-center gap-1.5">
        <Line dash="1.5 4" /> clone
      </li>
    </ul>
  );
}

function Line({ dash }: { dash?: string }) {
  return (
    <svg width="20" height="4" aria-hidden="true" className="stroke-line-strong">
      <path d="M1 2H19" strokeWidth="2" strokeLinecap="round" strokeDasharray={dash} />
    </svg>
  );
}

function Panel(props: {
  node: LineageNode;
  parent: LineageNode | undefined;
  current: string | undefined;
  children: ReactNode;
}) {
  const { node, parent, current, children } = props;
  const { id, info } = node;
  return (
    <aside
      aria-label="Chosen database"
      className="flex shrink-0 flex-col gap-3 overflow-y-auto border-line bg-panel p-4 max-md:max-h-[45%] max-md:border-t md:w-72 md:border-l"
    >
      <header className="flex flex-col gap-1">
        <h2 className="text-base font-semibold break-words">{node.name}</h2>
        <span className="flex items-center gap-3">
          <StateBadge state={node.status} title={info?.error} />
          <CopyId id={id} />
        </span>
      </header>
      {info === undefined ? (
        <p className="text-muted">It is deleted. It is shown because databases came from it.</p>
      ) : (
        <p className="text-muted">
          {parent === undefined ? "Created " : "Made "}
          <RelativeTime at={node.createdAt} />
          {parent && ` as a ${node.origin} of ${parent.name}`}
        </p>
      )}
      <div className="flex flex-wrap gap-2 md:flex-col md:items-stretch">
        {info && id !== current && (
          <Link to="/databases/$id" params={{ id }} className={buttonClass("primary")}>
            <ExternalLink size={14} aria-hidden="true" /> Open
          </Link>
        )}
        {children}
      </div>
    </aside>
  );
}
