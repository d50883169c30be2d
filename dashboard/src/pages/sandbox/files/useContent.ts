import type { FileInfo } from "@pandastack/sdk";
import { useEffect, useRef, useState } from "react";
import { sandboxHandle } from "@/data/client";
import { toast } from "@/ui";
import { imageType, textOf, viewOf } from "./paths";

export type Content =
  | { readonly kind: "loading" | "binary" | "large" }
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "image"; readonly url: string }
  | { readonly kind: "text"; readonly saved: string; readonly text: string };

// Changes that are not saved, by sandbox and path. They outlive the view, not the page.
const drafts = new Map<string, string>();
const DRAFTS_MAX = 50;

function keepDraft(name: string, text: string): void {
  drafts.set(name, text);
  const oldest = drafts.keys().next().value;
  if (drafts.size > DRAFTS_MAX && oldest !== undefined) drafts.delete(oldest);
}

export interface OpenFile {
  readonly content: Content;
  /** There are changes that are not saved. */
  readonly isDirty: boolean;
  readonly busy: boolean;
  /** The file changed in the sandbox while it was edited here. */
  readonly otherVersion: boolean;
  edit(text: string): void;
  discard(): void;
  save(): Promise<void>;
  /** Reads the file again. What was not saved is lost. */
  again(): void;
}

/** The content of a file. `version` changes when the file changed in the sandbox. */
export function useContent(sandboxId: string, file: FileInfo, version: number): OpenFile {
  const { path } = file;
  const [content, setContent] = useState<Content>({ kind: "loading" });
  const [busy, setBusy] = useState(false);
  const [otherVersion, setOtherVersion] = useState(false);
  const isDirty = content.kind === "text" && content.text !== content.saved;
  const draft = `${sandboxId}:${path}`;
  useFirstRead(sandboxId, path, setContent);
  useOtherVersion(sandboxId, path, version, content, (next) => {
    if (next === undefined) setOtherVersion(true);
    else setContent(next);
  });
  useImageUrl(content);
  useDraft(draft, content, isDirty);

  const edit = (text: string): void =>
    setContent((now) => (now.kind === "text" ? { ...now, text } : now));
  const save = async (): Promise<void> => {
    if (content.kind !== "text" || !isDirty || busy) return;
    const { text } = content;
    setBusy(true);
    try {
      const mode = file.permissions;
      await sandboxHandle(sandboxId).filesystem.write(path, text, mode ? { mode } : {});
      setContent((now) => (now.kind === "text" ? { ...now, saved: text } : now));
      setOtherVersion(false);
      toast.success(`${file.name} saved`);
    } catch (error) {
      toast.error(error, `${file.name} was not saved`);
    } finally {
      setBusy(false);
    }
  };
  const again = (): void => {
    drafts.delete(draft);
    void read(sandboxId, path).then((next) => {
      setOtherVersion(false);
      setContent(next);
    });
  };
  const discard = (): void => {
    if (content.kind === "text") edit(content.saved);
  };
  return { content, isDirty, busy, otherVersion, edit, discard, save, again };
}

function useFirstRead(sandboxId: string, path: string, show: (content: Content) => void): void {
  useEffect(() => {
    const stop = new AbortController();
    void read(sandboxId, path, stop.signal).then((next) => {
      if (stop.signal.aborted) return;
      const kept = drafts.get(`${sandboxId}:${path}`);
      show(next.kind === "text" && kept !== undefined ? { ...next, text: kept } : next);
    });
    return () => stop.abort();
  }, [sandboxId, path, show]);
}

/** Reads a file that changed in the sandbox: tells its content, or nothing if it is edited here. */
function useOtherVersion(
  sandboxId: string,
  path: string,
  version: number,
  content: Content,
  tell: (next: Content | undefined) => void,
): void {
  const seen = useRef(version);
  const latest = useRef({ content, tell });
  latest.current = { content, tell };
  useEffect(() => {
    if (seen.current === version) return;
    seen.current = version;
    void read(sandboxId, path).then((next) => {
      const { content: now, tell: say } = latest.current;
      // The change was our own, or there is nothing to show it in.
      if (now.kind === "text" && next.kind === "text" && next.saved === now.saved) return;
      say(now.kind === "text" && now.text !== now.saved ? undefined : next);
    });
  }, [version, sandboxId, path]);
}

function useImageUrl(content: Content): void {
  useEffect(() => {
    const url = content.kind === "image" ? content.url : undefined;
    return () => {
      if (url !== undefined) URL.revokeObjectURL(url);
    };
  }, [content]);
}

/** Keeps what is not saved, and asks before the page is left with it. */
function useDraft(draft: string, content: Content, isDirty: boolean): void {
  useEffect(() => {
    if (content.kind !== "text") return;
    if (isDirty) keepDraft(draft, content.text);
    else drafts.delete(draft);
  }, [content, isDirty, draft]);
  useEffect(() => {
    if (!isDirty) return;
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);
}

async function read(sandboxId: string, path: string, signal?: AbortSignal): Promise<Content> {
  const files = sandboxHandle(sandboxId).filesystem;
  const options = signal === undefined ? {} : { signal };
  try {
    // The size in the list may be old.
    const { size } = await files.stat(path, options);
    const view = viewOf(path, size);
    if (view === "large") return { kind: "large" };
    const data = await files.readBytes(path, options);
    if (view === "image") {
      const type = imageType(path) ?? "";
      const url = URL.createObjectURL(new Blob([data as Uint8Array<ArrayBuffer>], { type }));
      return { kind: "image", url };
    }
    const text = textOf(data);
    return text === undefined ? { kind: "binary" } : { kind: "text", saved: text, text };
  } catch (error) {
    return { kind: "failed", error };
  }
}
