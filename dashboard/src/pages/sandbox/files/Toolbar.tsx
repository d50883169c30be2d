import type { FileInfo } from "@pandastack/sdk";
import { Download, FilePlus, FolderPlus, Pencil, RefreshCw, Trash2, Upload } from "lucide-react";
import { useRef } from "react";
import { IconButton } from "@/ui";
import type { Asking } from "./Asked";
import { downloadFile } from "./download";
import type { DroppedFile } from "./uploads";

/** What can be done in the current folder and with the chosen entry. */
export function Toolbar(props: {
  sandboxId: string;
  folder: string;
  chosen: FileInfo | undefined;
  onAsk: (asking: Asking) => void;
  onAgain: () => void;
  onUpload: (files: DroppedFile[]) => void;
}) {
  const { sandboxId, folder, chosen, onAsk, onAgain, onUpload } = props;
  const input = useRef<HTMLInputElement>(null);
  return (
    <div
      role="toolbar"
      aria-label="Files"
      className="flex items-center gap-0.5 border-b border-line px-2 pb-1"
    >
      <IconButton
        size="sm"
        label={`Upload to ${folder}`}
        icon={<Upload size={14} />}
        onClick={() => input.current?.click()}
      />
      <IconButton
        size="sm"
        label="New file"
        icon={<FilePlus size={14} />}
        onClick={() => onAsk({ kind: "file", folder })}
      />
      <IconButton
        size="sm"
        label="New folder"
        icon={<FolderPlus size={14} />}
        onClick={() => onAsk({ kind: "folder", folder })}
      />
      <IconButton size="sm" label="Read again" icon={<RefreshCw size={14} />} onClick={onAgain} />
      <span className="flex-1" />
      {chosen && <Chosen sandboxId={sandboxId} entry={chosen} onAsk={onAsk} />}
      <input
        ref={input}
        type="file"
        multiple
        className="sr-only"
        tabIndex={-1}
        aria-label="Files to upload"
        onChange={(event) => {
          onUpload([...(event.target.files ?? [])].map((file) => ({ file, name: file.name })));
          event.target.value = "";
        }}
      />
    </div>
  );
}

function Chosen(props: { sandboxId: string; entry: FileInfo; onAsk: (asking: Asking) => void }) {
  const { sandboxId, entry, onAsk } = props;
  return (
    <>
      <IconButton
        size="sm"
        label={`Download ${entry.name}`}
        icon={<Download size={14} />}
        onClick={() => void downloadFile(sandboxId, entry)}
      />
      <IconButton
        size="sm"
        label={`Rename ${entry.name}`}
        shortcut="F2"
        icon={<Pencil size={14} />}
        onClick={() => onAsk({ kind: "rename", entry })}
      />
      <IconButton
        size="sm"
        label={`Delete ${entry.name}`}
        icon={<Trash2 size={14} />}
        onClick={() => onAsk({ kind: "delete", entry })}
      />
    </>
  );
}
