import type { FileInfo } from "@pandastack/sdk";
import { ArrowLeft, Download, RotateCcw, Save } from "lucide-react";
import { bytes } from "@/data/format";
import { Button, CopyText, EmptyState, ErrorNote, IconButton, Loading, RelativeTime } from "@/ui";
import { CodeEditor } from "../editor";
import { languageOf } from "../editor/languages";
import { downloadFile } from "./download";
import { type Content, type OpenFile, useContent } from "./useContent";

/** One file: an image, or text to edit. `version` changes when the file changed in the sandbox. */
export function Viewer(props: {
  sandboxId: string;
  file: FileInfo;
  version: number;
  onBack: () => void;
}) {
  const { sandboxId, file, version, onBack } = props;
  const open = useContent(sandboxId, file, version);
  const { content } = open;
  return (
    <section aria-label={file.name} className="flex h-full min-h-0 min-w-0 flex-1 flex-col">
      <Header sandboxId={sandboxId} file={file} open={open} onBack={onBack} />
      {open.otherVersion && (
        <div role="alert" className="flex flex-wrap items-center gap-2 bg-warn-soft px-3 py-1.5">
          <span className="flex-1">The file changed in the sandbox. Saving replaces that.</span>
          <Button size="sm" icon={<RotateCcw size={14} />} onClick={open.again}>
            Take the new version
          </Button>
        </div>
      )}
      <Body content={content} file={file} sandboxId={sandboxId} onRetry={open.again}>
        {content.kind === "text" && (
          <CodeEditor
            key={file.path}
            fill
            label={`Content of ${file.name}`}
            value={content.text}
            language={languageOf(file.path)}
            keys={{ "Mod-s": () => void open.save() }}
            onChange={open.edit}
          />
        )}
      </Body>
    </section>
  );
}

function Header(props: { sandboxId: string; file: FileInfo; open: OpenFile; onBack: () => void }) {
  const { sandboxId, file, open, onBack } = props;
  const { content, isDirty } = open;
  return (
    <header className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-1.5">
      <IconButton
        label="Back to the files"
        size="sm"
        icon={<ArrowLeft size={14} />}
        onClick={onBack}
        className="md:hidden"
      />
      <CopyText text={file.path} className="min-w-0" />
      {isDirty && <span className="text-xs text-warn">not saved</span>}
      <span className="ml-auto flex items-center gap-2 text-xs text-muted">
        <span className="hidden lg:inline">
          {bytes(file.size)} · <RelativeTime at={new Date(file.mtime * 1000).toISOString()} />
        </span>
        <IconButton
          label="Download"
          size="sm"
          icon={<Download size={14} />}
          onClick={() => void downloadFile(sandboxId, file)}
        />
        {isDirty && (
          <IconButton
            label="Discard the changes"
            size="sm"
            icon={<RotateCcw size={14} />}
            onClick={open.discard}
          />
        )}
        {content.kind === "text" && (
          <Button
            size="sm"
            variant="primary"
            icon={<Save size={14} />}
            disabled={!isDirty}
            loading={open.busy}
            onClick={() => void open.save()}
          >
            Save
          </Button>
        )}
      </span>
    </header>
  );
}

function Body(props: {
  content: Content;
  file: FileInfo;
  sandboxId: string;
  onRetry: () => void;
  children: React.ReactNode;
}) {
  const { content, file, sandboxId, onRetry, children } = props;
  if (content.kind === "loading") return <Loading />;
  if (content.kind === "failed") {
    return <ErrorNote error={content.error} onRetry={onRetry} title="The file could not be read" />;
  }
  if (content.kind === "image") {
    return (
      <div className="flex min-h-0 flex-1 items-center justify-center overflow-auto bg-sunken p-4">
        <img
          src={content.url}
          alt={file.name}
          className="max-h-full max-w-full rounded border border-line bg-panel object-contain"
        />
      </div>
    );
  }
  if (content.kind === "text") return <div className="min-h-0 flex-1">{children}</div>;
  return (
    <EmptyState
      title={content.kind === "large" ? "Too large to edit here" : "Not a text"}
      actions={
        <Button
          variant="primary"
          icon={<Download size={14} />}
          onClick={() => void downloadFile(sandboxId, file)}
        >
          Download {bytes(file.size)}
        </Button>
      }
    />
  );
}
