import type { FileInfo } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { keys } from "@/data/keys";
import type { Asking } from "./Asked";
import { changedFolders, cleanPath, nameOf, parentOf } from "./paths";
import { foldersTo } from "./Tree";
import { useWatch } from "./useWatch";

const ROOT_DEFAULT = "/root";
const CONTENT_CHANGES = ["written", "moved_to"];

interface Place {
  path?: string | undefined;
  root?: string | undefined;
}

/** What the file part shows: the folder and the open file are in the address. */
export function useFiles(sandboxId: string) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as Place;
  const root = cleanPath(search.root ?? ROOT_DEFAULT);
  const path = search.path;
  const [open, setOpen] = useState<ReadonlySet<string>>(
    () => new Set(path === undefined ? [] : foldersTo(root, path)),
  );
  const [chosen, setChosen] = useState<FileInfo>();
  const [asking, setAsking] = useState<Asking>();
  // Counts the changes of the open file.
  const [version, setVersion] = useState(0);
  const folder = chosen === undefined ? root : chosen.is_dir ? chosen.path : parentOf(chosen.path);
  const shown = chosen?.path === path ? chosen : path === undefined ? undefined : unknownFile(path);

  const go = (fields: Place): void => {
    const next = Object.entries({ root: search.root, path, ...fields });
    void navigate({
      to: "/sandboxes/$id/$tab",
      params: { id: sandboxId, tab: "files" },
      search: Object.fromEntries(next.filter(([, value]) => value !== undefined)),
      replace: true,
    });
  };
  const stale = (changed?: string): void => {
    const all = keys.sandboxPart(sandboxId, "files");
    void queries.invalidateQueries({ queryKey: changed === undefined ? all : [...all, changed] });
  };
  const isLive = useWatch(sandboxId, root === "/" ? folder : root, root !== "/", (changes) => {
    const folders = changedFolders(changes);
    if (folders === undefined) stale();
    else for (const one of folders) stale(one);
    const isOpen = changes.some((one) => one.path === path && CONTENT_CHANGES.includes(one.type));
    if (isOpen || folders === undefined) setVersion((old) => old + 1);
  });
  return {
    root,
    folder,
    chosen,
    shown,
    open,
    asking,
    version,
    isLive,
    go,
    stale,
    setAsking,
    select(entry: FileInfo): void {
      setChosen(entry);
      if (!entry.is_dir) go({ path: entry.path });
    },
    toggle(changed: string, isOpen: boolean): void {
      setOpen((old) => (isOpen ? new Set([...old, changed]) : without(old, changed)));
    },
    /** After a new, renamed or deleted entry. */
    done(made: string): void {
      stale(parentOf(made));
      if (asking?.kind === "file") go({ path: made });
      if (asking?.kind !== "delete" && asking?.kind !== "rename") return;
      setChosen(undefined);
      if (path === asking.entry.path) go({ path: asking.kind === "rename" ? made : undefined });
    },
  };
}

function without(set: ReadonlySet<string>, one: string): ReadonlySet<string> {
  const rest = new Set(set);
  rest.delete(one);
  return rest;
}

/** A file of which only the path is known, from the address of the page. */
function unknownFile(path: string): FileInfo {
  return { path, name: nameOf(path), is_dir: false, size: 0, mode: "f", mtime: Date.now() / 1000 };
}
