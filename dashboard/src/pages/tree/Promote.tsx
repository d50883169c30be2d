import { useState } from "react";
import { plural } from "@/data/format";
import { Button, Checkbox, Dialog } from "@/ui";
import type { FamilyNode } from "./family";

/** Asks how a branch is promoted, and names what is lost with the others. */
export function PromoteDialog(props: {
  node: FamilyNode;
  siblings: readonly FamilyNode[];
  onClose: () => void;
  /** Resolves to whether it was done. A failure was reported. */
  onPromote: (cleanupSiblings: boolean) => Promise<boolean>;
}) {
  const { node, siblings, onClose, onPromote } = props;
  const [cleanup, setCleanup] = useState(siblings.length > 0);
  const [busy, setBusy] = useState(false);
  const promote = async (): Promise<void> => {
    setBusy(true);
    if (await onPromote(cleanup)) onClose();
    else setBusy(false);
  };
  return (
    <Dialog
      open
      size="sm"
      onClose={onClose}
      title={`Promote ${node.name}?`}
      description="It becomes a sandbox of its own, with its own idle limit."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant={cleanup ? "danger" : "primary"}
            loading={busy}
            onClick={() => void promote()}
          >
            {cleanup
              ? `Promote, delete ${plural(siblings.length, "branch", "branches")}`
              : "Promote"}
          </Button>
        </>
      }
    >
      {siblings.length > 0 && (
        <div className="flex flex-col gap-2">
          <label className="flex items-center gap-2">
            <Checkbox checked={cleanup} onChange={(event) => setCleanup(event.target.checked)} />
            Delete the other branches of its tree
          </label>
          {cleanup && (
            <>
              <p className="font-medium">This is lost for good:</p>
              <ul className="list-disc pl-5 text-muted">
                {siblings.slice(0, 8).map(({ id, name, status }) => (
                  <li key={id}>
                    Memory and disk of {name} ({status})
                  </li>
                ))}
                {siblings.length > 8 && <li>and {siblings.length - 8} more</li>}
              </ul>
            </>
          )}
        </div>
      )}
    </Dialog>
  );
}
