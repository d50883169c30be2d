import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { X } from "lucide-react";
import { useMemo, useState } from "react";
import { useCommands } from "@/app/commands";
import { useSandboxActions } from "@/data/actions";
import { billQuery, pricingQuery } from "@/data/queries";
import { useTreeActions } from "@/data/treeActions";
import { ConfirmDialog, copyText, IconButton, toast } from "@/ui";
import { lossesOf } from "../sandboxes/losses";
import { Compare } from "./Compare";
import { costText, ratesOf } from "./cost";
import { childrenOf, type FamilyNode, siblingsOf } from "./family";
import { layoutTrees } from "./layout";
import { type NodeAction, NodeMenu } from "./NodeMenu";
import { Panel } from "./Panel";
import { Picture, type PictureNode } from "./Picture";
import { PromoteDialog } from "./Promote";

export interface TreeViewProps {
  label: string;
  roots: readonly string[];
  nodes: ReadonlyMap<string, FamilyNode>;
  /** The node that is chosen first. */
  start: string | undefined;
}

type Asking = { readonly kind: "delete" | "promote"; readonly node: FamilyNode };

const KEY_ACTIONS: Record<string, NodeAction> = {
  o: "open",
  f: "fork",
  F: "fork3",
  p: "promote",
  c: "compare",
  Delete: "delete",
};

/** The picture with its menu, its panel and its dialogs. The address names what is chosen. */
export function TreeView({ label, roots, nodes, start }: TreeViewProps) {
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as { node?: string; with?: string };
  const [menu, setMenu] = useState<{ id: string; at: { x: number; y: number } }>();
  const [choosingFor, setChoosingFor] = useState<string>();
  const [asking, setAsking] = useState<Asking>();
  const act = useNodeAction(setAsking, setChoosingFor);
  const tree = useMemo(() => {
    const children = childrenOf(nodes);
    return layoutTrees(roots, (id) => children.get(id)?.map((child) => child.id) ?? []);
  }, [nodes, roots]);
  const pictured = usePictured(nodes);
  const selected = search.node ?? start;
  const node = nodes.get(selected ?? "");
  const other = nodes.get(search.with ?? "");
  const menuNode = nodes.get(menu?.id ?? "");
  const show = (chosen: string, compared?: string): void => {
    const next = { node: chosen, ...(compared === undefined ? {} : { with: compared }) };
    void navigate({ to: ".", search: next as never, replace: true });
  };
  const select = (id: string): void => {
    const isSecond = choosingFor !== undefined && choosingFor !== id && nodes.get(id)?.info;
    if (!isSecond) show(id);
    else {
      show(choosingFor, id);
      setChoosingFor(undefined);
    }
  };
  const onKey = (id: string, key: string): boolean => {
    const isStop = key === "Escape" && choosingFor !== undefined;
    if (isStop) setChoosingFor(undefined);
    return isStop || actOnKey(key, nodes.get(id), act);
  };
  useTreeCommands(node, act);
  return (
    <div className="flex min-h-0 flex-1 flex-col border-t border-line md:flex-row">
      <Picture
        label={label}
        tree={tree}
        nodes={pictured}
        selected={selected}
        compared={search.with ?? (choosingFor === selected ? undefined : choosingFor)}
        choosing={choosingFor !== undefined}
        onSelect={select}
        onMenu={(id, at) => setMenu({ id, at })}
        onKey={onKey}
      >
        <Choosing node={nodes.get(choosingFor ?? "")} onStop={() => setChoosingFor(undefined)} />
      </Picture>
      {node && <Panel node={node} onAction={(action) => act(action, node)} />}
      {menu && menuNode && (
        <NodeMenu
          key={menu.id}
          node={menuNode}
          at={menu.at}
          onClose={() => setMenu(undefined)}
          onAction={(action) => act(action, menuNode)}
        />
      )}
      {node && other && (
        <Compare
          node={node}
          other={other}
          onSwap={() => show(other.id, node.id)}
          onClose={() => show(node.id)}
        />
      )}
      {asking && <Ask asking={asking} nodes={nodes} onClose={() => setAsking(undefined)} />}
    </div>
  );
}

/** The nodes with what they cost. */
function usePictured(nodes: ReadonlyMap<string, FamilyNode>): ReadonlyMap<string, PictureNode> {
  const { data: pricing } = useQuery(pricingQuery);
  const { data: bill } = useQuery(billQuery);
  const rates = ratesOf(pricing, bill?.plan);
  return useMemo(
    () =>
      new Map(
        [...nodes].map(([id, node]) => [
          id,
          { ...node, cost: node.info && costText(node.info, rates) },
        ]),
      ),
    [nodes, rates],
  );
}

/** Does what a key means for a node. Returns whether it meant something. */
function actOnKey(
  key: string,
  node: FamilyNode | undefined,
  act: (action: NodeAction, node: FamilyNode) => void,
): boolean {
  const action = KEY_ACTIONS[key];
  if (action === undefined || node?.info === undefined) return false;
  act(action, node);
  return true;
}

/** Does an action of a node, or asks first. */
function useNodeAction(
  ask: (asking: Asking) => void,
  compare: (id: string) => void,
): (action: NodeAction, node: FamilyNode) => void {
  const navigate = useNavigate();
  const actions = useSandboxActions();
  const trees = useTreeActions();
  return (action, node) => {
    const { id } = node;
    const run: Record<NodeAction, () => unknown> = {
      open: () => navigate({ to: "/sandboxes/$id/$tab", params: { id, tab: "terminal" } }),
      fork: () => actions.fork(id),
      fork3: () => trees.forkMany(id, 3),
      promote: () => node.treeId && ask({ kind: "promote", node }),
      compare: () => compare(id),
      snapshot: () => actions.snapshot(id),
      hibernate: () => actions.run("hibernate", [id]),
      wake: () => actions.run("wake", [id]),
      copy: () => copyText(id).then(() => toast.success("Id copied")),
      delete: () => node.info && ask({ kind: "delete", node }),
    };
    void run[action]();
  };
}

function useTreeCommands(
  node: FamilyNode | undefined,
  act: (action: NodeAction, node: FamilyNode) => void,
): void {
  const group = "Fork tree";
  useCommands(
    node?.info
      ? [
          { id: "tree-fork", group, title: `Fork ${node.name}`, run: () => act("fork", node) },
          {
            id: "tree-fork3",
            group,
            title: `Fork ${node.name} three ways`,
            run: () => act("fork3", node),
          },
          {
            id: "tree-compare",
            group,
            title: `Compare ${node.name} with…`,
            run: () => act("compare", node),
          },
        ]
      : [],
  );
}

function Choosing({ node, onStop }: { node: FamilyNode | undefined; onStop: () => void }) {
  if (node === undefined) return null;
  return (
    <div
      role="status"
      className="absolute top-3 left-1/2 flex w-max max-w-[calc(100%-2rem)] -translate-x-1/2 items-center gap-2 rounded-md border border-line bg-panel px-3 py-1.5 shadow-pop"
    >
      Choose the sandbox to compare {node.name} with
      <IconButton size="sm" label="Stop comparing" icon={<X size={14} />} onClick={onStop} />
    </div>
  );
}

/** Asks before a node is deleted or promoted. */
function Ask(props: {
  asking: Asking;
  nodes: ReadonlyMap<string, FamilyNode>;
  onClose: () => void;
}) {
  const { asking, nodes, onClose } = props;
  const { kind, node } = asking;
  const actions = useSandboxActions();
  const trees = useTreeActions();
  if (kind === "promote") {
    return (
      <PromoteDialog
        node={node}
        siblings={siblingsOf(nodes, node)}
        onClose={onClose}
        onPromote={(cleanup) => trees.promote(node.id, cleanup)}
      />
    );
  }
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete ${node.name}?`}
      lost={[...lossesOf(node.info ? [node.info] : []), "Its forks go on without it"]}
      action="Delete the sandbox"
      onConfirm={() => void actions.run("delete", [node.id])}
    />
  );
}
