import { FolderUp } from "lucide-react";
import { useState } from "react";
import type { SandboxInfo } from "@/data/queries";
import { cx, EmptyState, IconButton, Input, toast } from "@/ui";
import { Awake } from "../Awake";
import { Asked } from "./Asked";
import { cleanPath, parentOf } from "./paths";
import { Toolbar } from "./Toolbar";
import { FileTree } from "./Tree";
import { UploadList } from "./UploadList";
import { droppedFiles, useUploads } from "./uploads";
import { useFiles } from "./useFiles";
import { Viewer } from "./Viewer";

/** The files of a sandbox. */
export default function FilesPart({ sandbox }: { sandbox: SandboxInfo }) {
  return (
    <Awake sandbox={sandbox} what="its files">
      <Files sandboxId={sandbox.id} />
    </Awake>
  );
}

function Files({ sandboxId }: { sandboxId: string }) {
  const files = useFiles(sandboxId);
  const { root, folder, chosen, shown, go, stale, setAsking } = files;
  const [list, uploads] = useUploads(sandboxId);
  const drop = (target: string, transfer: DataTransfer): void => {
    void droppedFiles(transfer).then((found) => uploads.add(target, found), toast.error);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: files can be dropped anywhere
    <div
      className="flex h-full min-h-0"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        drop(folder, event.dataTransfer);
      }}
    >
      <div
        className={cx(
          "flex min-h-0 w-full flex-col border-r border-line md:w-80 md:shrink-0",
          shown && "max-md:hidden",
        )}
      >
        <RootBar root={root} isLive={files.isLive} onRoot={(next) => go({ root: next })} />
        <Toolbar
          sandboxId={sandboxId}
          folder={folder}
          chosen={chosen}
          onAsk={setAsking}
          onAgain={() => stale()}
          onUpload={(found) => uploads.add(folder, found)}
        />
        <FileTree
          sandboxId={sandboxId}
          root={root}
          open={files.open}
          onToggle={files.toggle}
          selected={chosen?.path ?? shown?.path}
          onSelect={files.select}
          onRename={(entry) => setAsking({ kind: "rename", entry })}
          onDelete={(entry) => setAsking({ kind: "delete", entry })}
          onDropFiles={drop}
        />
        <UploadList list={list} onStop={(id) => uploads.stop(id)} onClear={() => uploads.clear()} />
      </div>
      {shown ? (
        <Viewer
          key={shown.path}
          sandboxId={sandboxId}
          file={shown}
          version={files.version}
          onBack={() => go({ path: undefined })}
        />
      ) : (
        <NoFile />
      )}
      {files.asking && (
        <Asked
          sandboxId={sandboxId}
          asking={files.asking}
          onClose={() => setAsking(undefined)}
          onDone={files.done}
        />
      )}
    </div>
  );
}

function NoFile() {
  return (
    <div className="hidden min-w-0 flex-1 items-center justify-center md:flex">
      <EmptyState title="No file is open">
        <p>Choose a file to see or edit it. Drop files on the list to upload them.</p>
      </EmptyState>
    </div>
  );
}

function RootBar(props: { root: string; isLive: boolean; onRoot: (root: string) => void }) {
  const { root, isLive, onRoot } = props;
  const [text, setText] = useState(root);
  const [before, setBefore] = useState(root);
  if (before !== root) {
    setBefore(root);
    setText(root);
  }
  return (
    <form
      className="flex items-center gap-1 p-2 pb-1"
      onSubmit={(event) => {
        event.preventDefault();
        onRoot(cleanPath(text));
      }}
    >
      <IconButton
        label="Parent folder"
        size="sm"
        icon={<FolderUp size={14} />}
        disabled={root === "/"}
        onClick={() => onRoot(parentOf(root))}
      />
      <Input
        aria-label="Folder"
        value={text}
        spellCheck={false}
        autoComplete="off"
        className="h-7! font-mono text-xs"
        onChange={(event) => setText(event.target.value)}
        onBlur={() => onRoot(cleanPath(text))}
      />
      <span
        title={isLive ? "Changes are shown at once" : "Not watched at the moment"}
        className={cx("ml-1 size-2 shrink-0 rounded-full", isLive ? "bg-dot-ok" : "bg-dot-off")}
      />
    </form>
  );
}
