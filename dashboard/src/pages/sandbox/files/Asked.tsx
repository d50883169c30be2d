import type { FileInfo } from "@pandastack/sdk";
import { type FormEvent, useState } from "react";
import { sandboxHandle } from "@/data/client";
import { bytes } from "@/data/format";
import { Button, ConfirmDialog, Dialog, Field, Input, toast } from "@/ui";
import { joinPath, nameProblem, parentOf } from "./paths";

/** What a person is asked. */
export type Asking =
  | { readonly kind: "file"; readonly folder: string }
  | { readonly kind: "folder"; readonly folder: string }
  | { readonly kind: "rename"; readonly entry: FileInfo }
  | { readonly kind: "delete"; readonly entry: FileInfo };

/** Asks for a name, or whether to delete, and does it. */
export function Asked(props: {
  sandboxId: string;
  asking: Asking;
  onClose: () => void;
  onDone: (path: string) => void;
}) {
  const { sandboxId, asking, onClose, onDone } = props;
  if (asking.kind !== "delete") {
    return <AskName sandboxId={sandboxId} asking={asking} onClose={onClose} onDone={onDone} />;
  }
  const { entry } = asking;
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete ${entry.name}?`}
      lost={[
        entry.is_dir ? `${entry.path} and everything in it` : `${entry.path}, ${bytes(entry.size)}`,
      ]}
      action="Delete"
      onConfirm={async () => {
        try {
          await sandboxHandle(sandboxId).filesystem.remove(entry.path);
          onDone(entry.path);
        } catch (error) {
          toast.error(error);
        }
      }}
    />
  );
}

type AskingName = Exclude<Asking, { kind: "delete" }>;

const TITLES = { file: "New file", folder: "New folder", rename: "Rename" };

function AskName(props: {
  sandboxId: string;
  asking: AskingName;
  onClose: () => void;
  onDone: (path: string) => void;
}) {
  const { sandboxId, asking, onClose, onDone } = props;
  const [name, setName] = useState(asking.kind === "rename" ? asking.entry.name : "");
  const [busy, setBusy] = useState(false);
  const problem = nameProblem(name.trim());
  const folder = asking.kind === "rename" ? parentOf(asking.entry.path) : asking.folder;
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (problem !== undefined) return;
    const path = joinPath(folder, name.trim());
    setBusy(true);
    try {
      await make(sandboxId, asking, path);
      onDone(path);
      onClose();
    } catch (error) {
      toast.error(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      size="sm"
      onClose={onClose}
      title={TITLES[asking.kind]}
      description={`In ${folder}`}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            form="file-name"
            variant="primary"
            loading={busy}
            disabled={problem !== undefined}
          >
            {asking.kind === "rename" ? "Rename" : "Create"}
          </Button>
        </>
      }
    >
      <form id="file-name" onSubmit={(event) => void submit(event)}>
        <Field label="Name" error={name === "" ? undefined : problem}>
          {(control) => (
            <Input
              {...control}
              value={name}
              autoFocus
              autoComplete="off"
              spellCheck={false}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
      </form>
    </Dialog>
  );
}

async function make(sandboxId: string, asking: AskingName, path: string): Promise<void> {
  const files = sandboxHandle(sandboxId).filesystem;
  if (asking.kind === "folder") await files.mkdir(path);
  else if (asking.kind === "rename") await files.move(asking.entry.path, path);
  else {
    if (await files.exists(path)) throw new Error(`${path} already exists`);
    await files.write(path, "");
  }
}
