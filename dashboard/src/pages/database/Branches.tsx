import { useQuery } from "@tanstack/react-query";
import { GitCompareArrows, RotateCcw } from "lucide-react";
import { useMemo, useState } from "react";
import { type DatabaseInfo, databaseName, databasesQuery, resetBranch } from "@/data/databases";
import { plural } from "@/data/format";
import { Button, ConfirmDialog, ErrorNote, Segmented } from "@/ui";
import { Compare } from "./compare/Compare";
import { LineagePicture } from "./lineage/LineagePicture";
import { familySize, type LineageNode, lineageOf, rootOf, rootsOf } from "./lineage/lineage";
import { useChange } from "./useChange";

type Shown = "family" | "all";

/** A branch and what it is compared with or reset to. */
interface Asked {
  readonly kind: "compare" | "reset";
  readonly branch: DatabaseInfo;
  readonly parent: DatabaseInfo;
}

/** Who came from whom, and what a branch changed. */
export default function BranchesPart({ database }: { database: DatabaseInfo }) {
  const { data, error, refetch } = useQuery(databasesQuery);
  const [shown, setShown] = useState<Shown>("family");
  const [asked, setAsked] = useState<Asked>();
  const databases = useMemo(
    // The list may be older than the record of this page.
    () => [database, ...(data ?? []).filter(({ id }) => id !== database.id)],
    [data, database],
  );
  const nodes = useMemo(() => lineageOf(databases), [databases]);
  const roots = useMemo(
    () => (shown === "all" ? rootsOf(nodes) : [rootOf(nodes, database.id)]),
    [nodes, shown, database.id],
  );
  const size = familySize(nodes, database.id);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex flex-wrap items-center gap-2 px-4 py-2 md:px-6">
        <span className="min-w-0 flex-1 basis-40 text-muted">
          {size === 1 ? "Nothing came from it yet" : `A family of ${plural(size, "database")}`}
        </span>
        <Segmented
          label="Shown"
          value={shown}
          onChange={setShown}
          choices={[
            { value: "family", label: "This family" },
            { value: "all", label: "All databases" },
          ]}
        />
      </div>
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      <LineagePicture
        label={shown === "all" ? "All databases" : "Family of the database"}
        nodes={nodes}
        roots={roots}
        current={database.id}
        actions={(node) => (
          <BranchActions node={node} parent={nodes.get(node.parentId ?? "")} onAsk={setAsked} />
        )}
      />
      {asked?.kind === "compare" && (
        <Compare
          databases={databases}
          start={{ from: asked.parent.id, to: asked.branch.id }}
          onClose={() => setAsked(undefined)}
        />
      )}
      {asked?.kind === "reset" && <ResetDialog {...asked} onClose={() => setAsked(undefined)} />}
    </div>
  );
}

function BranchActions(props: {
  node: LineageNode;
  parent: LineageNode | undefined;
  onAsk: (asked: Asked) => void;
}) {
  const { node, onAsk } = props;
  const branch = node.info;
  const parent = props.parent?.info;
  if (branch === undefined || node.parentId === undefined) return null;
  if (parent === undefined) {
    return (
      <p className="text-muted">
        Its parent is deleted, so it can be neither compared with it nor reset to it.
      </p>
    );
  }
  return (
    <>
      <Button
        icon={<GitCompareArrows size={14} />}
        onClick={() => onAsk({ kind: "compare", branch, parent })}
      >
        Compare with {node.origin === "clone" ? "source" : "parent"}
      </Button>
      {node.origin === "branch" && (
        <Button
          variant="danger"
          icon={<RotateCcw size={14} />}
          onClick={() => onAsk({ kind: "reset", branch, parent })}
        >
          Reset to parent…
        </Button>
      )}
    </>
  );
}

function ResetDialog(props: Asked & { onClose: () => void }) {
  const { branch, parent, onClose } = props;
  const change = useChange();
  const name = databaseName(branch);
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Reset ${name} to ${databaseName(parent)}?`}
      lost={[
        `All changes that were made in ${name}, and its own backups`,
        "Its open connections",
        `Not its address and credentials: it becomes what ${databaseName(parent)} is now`,
      ]}
      typeToConfirm={name}
      action="Reset the branch"
      onConfirm={() => change(resetBranch(branch.id), `${name} is what its parent is`)}
    />
  );
}
