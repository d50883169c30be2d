import { NotFoundError } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { GitFork, Network } from "lucide-react";
import { useMemo, useState } from "react";
import { plural } from "@/data/format";
import { ofKind } from "@/data/kinds";
import { sandboxesQuery, treeQuery } from "@/data/queries";
import {
  Badge,
  buttonClass,
  EmptyState,
  ErrorNote,
  Loading,
  PageHeader,
  Segmented,
  Snippets,
} from "@/ui";
import { allNodes, familyRoots, rootOf } from "./family";
import { TreeView } from "./TreeView";

/** The family of one sandbox. */
export function TreePage() {
  const { id } = useParams({ strict: false });
  if (id === undefined) return null;
  return <Family key={id} id={id} />;
}

/** All families of the workspace. */
export function ForestPage() {
  const { data: sandboxes, error, refetch } = useQuery(sandboxesQuery);
  const [shown, setShown] = useState<"families" | "sandboxes" | "machines">("families");
  const nodes = useMemo(
    () => allNodes(ofKind(sandboxes ?? [], shown === "machines" ? "all" : "sandbox")),
    [sandboxes, shown],
  );
  const roots = useMemo(
    () => familyRoots(nodes, shown === "families" ? 2 : 1).map(({ root }) => root),
    [nodes, shown],
  );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <PageHeader
        title="Fork trees"
        aside={sandboxes && <Badge>{plural(roots.length, "family", "families")}</Badge>}
        actions={
          <Segmented
            label="Shown"
            value={shown}
            onChange={setShown}
            choices={[
              { value: "families", label: "Families" },
              { value: "sandboxes", label: "All sandboxes" },
              { value: "machines", label: "With databases" },
            ]}
          />
        }
      />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {sandboxes === undefined && !error && <Loading />}
      {sandboxes && roots.length === 0 && <NoForks />}
      {sandboxes && roots.length > 0 && (
        <TreeView label="All fork trees" roots={roots} nodes={nodes} start={undefined} />
      )}
    </div>
  );
}

function Family({ id }: { id: string }) {
  const told = useQuery(treeQuery(id));
  const list = useQuery(sandboxesQuery);
  const nodes = useMemo(
    () => allNodes(list.data ?? [], told.data?.nodes ?? []),
    [list.data, told.data],
  );
  const isKnown = nodes.has(id);
  const root = isKnown
    ? rootOf(nodes, id)
    : (told.data?.nodes.find((node) => nodes.has(node.id))?.id ?? id);
  const size = useMemo(
    () => [...nodes.keys()].filter((one) => rootOf(nodes, one) === root).length,
    [nodes, root],
  );
  const roots = useMemo(() => [root], [root]);
  if (list.error) return <ErrorNote error={list.error} onRetry={() => void list.refetch()} />;
  if (list.data === undefined) return <Loading />;
  if (!nodes.has(root)) {
    if (told.isPending) return <Loading />;
    if (told.error && !(told.error instanceof NotFoundError)) {
      return <ErrorNote error={told.error} onRetry={() => void told.refetch()} />;
    }
    return <NoFamily />;
  }
  return (
    <div className="flex h-full min-h-0 flex-col">
      <PageHeader
        title="Fork tree"
        documentTitle={`Fork tree of ${nodes.get(root)?.name ?? root}`}
        aside={
          <>
            <Badge>{plural(size, "sandbox", "sandboxes")}</Badge>
            <span className="text-muted">of {nodes.get(root)?.name}</span>
          </>
        }
        actions={
          <Link to="/tree" className={buttonClass()}>
            <Network size={14} /> All fork trees
          </Link>
        }
      />
      <TreeView
        label={`Family of ${nodes.get(root)?.name ?? root}`}
        roots={roots}
        nodes={nodes}
        start={id}
      />
    </div>
  );
}

function NoForks() {
  return (
    <EmptyState icon={<GitFork size={32} strokeWidth={1.25} />} title="No forks yet">
      <p>
        A fork is a running copy of a sandbox, with its memory and disk. Try several ways at once,
        and keep the best:
      </p>
      <Snippets
        label="Fork a sandbox"
        snippets={{
          CLI: "pandastack sandbox fork web --count 3",
          Python: "tree = sandbox.fork_tree(3)\ntree.promote(max(tree.branches, key=score))",
          TypeScript:
            "const tree = await sandbox.forkTree(3);\nawait tree.promote(tree.branches[0], { cleanupSiblings: true });",
        }}
      />
    </EmptyState>
  );
}

function NoFamily() {
  return (
    <EmptyState
      icon={<Network size={32} strokeWidth={1.25} />}
      title="This family is gone"
      actions={
        <Link to="/tree" className={buttonClass("primary")}>
          All fork trees
        </Link>
      }
    />
  );
}
