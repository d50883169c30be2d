import type { FileInfo } from "@pandastack/sdk";
import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronRight, File, FileImage, FileSymlink, Folder, FolderOpen } from "lucide-react";
import { type DragEvent, type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { bytes } from "@/data/format";
import { directoryQuery } from "@/data/sandbox";
import { cx, ErrorNote, SkeletonRows } from "@/ui";
import { imageType, parentOf, type TreeRow, treeRows } from "./paths";

const ROW_PX = 26;
const INDENT_PX = 14;

export interface FileTreeProps {
  sandboxId: string;
  root: string;
  open: ReadonlySet<string>;
  onToggle: (folder: string, open: boolean) => void;
  selected: string | undefined;
  onSelect: (entry: FileInfo) => void;
  onRename: (entry: FileInfo) => void;
  onDelete: (entry: FileInfo) => void;
  onDropFiles: (folder: string, transfer: DataTransfer) => void;
}

/** The rows of the tree: the folders that are open are read. */
function useRows(sandboxId: string, root: string, open: ReadonlySet<string>) {
  const folders = useMemo(
    () => [root, ...open].filter((one, at, all) => all.indexOf(one) === at),
    [root, open],
  );
  const listings = useQueries({
    queries: folders.map((folder) => directoryQuery(sandboxId, folder)),
  });
  const known = new Map(folders.map((folder, at) => [folder, listings[at]?.data]));
  return { rows: treeRows(root, open, (folder) => known.get(folder)), first: listings[0] };
}

/** Files and folders as a tree. Folders are read when they are opened. */
export function FileTree(props: FileTreeProps) {
  const { root } = props;
  const { rows, first } = useRows(props.sandboxId, root, props.open);
  if (first?.isPending) return <SkeletonRows rows={8} />;
  if (first?.error) {
    return (
      <ErrorNote
        error={first.error}
        onRetry={() => void first.refetch()}
        title={`${root} could not be listed`}
      />
    );
  }
  return <Rows {...props} rows={rows} />;
}

function Rows(props: FileTreeProps & { rows: readonly TreeRow[] }) {
  const { root, rows, onToggle, selected, onSelect } = props;
  const [cursor, setCursor] = useState<string>();
  const [dropOn, setDropOn] = useState<string>();
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 20,
  });

  useEffect(() => {
    if (selected !== undefined) setCursor(selected);
  }, [selected]);

  const choose = ({ entry, isOpen }: TreeRow): void => {
    setCursor(entry.path);
    if (entry.is_dir) onToggle(entry.path, !isOpen);
    onSelect(entry);
  };
  const keys = treeKeys(rows, cursor, props, {
    choose,
    move: (row) => {
      setCursor(row.entry.path);
      virtual.scrollToIndex(rows.indexOf(row));
    },
  });

  return (
    <div
      ref={scroller}
      role="tree"
      aria-label={`Files of ${root}`}
      tabIndex={0}
      aria-activedescendant={keys.current && rowId(keys.current.entry.path)}
      onKeyDown={keys.onKeyDown}
      {...dropTarget(root, rows, setDropOn, props.onDropFiles)}
      className={cx(
        "min-h-0 flex-1 overflow-auto py-1 focus-visible:outline-offset-[-2px]",
        dropOn === root && "bg-accent-soft",
      )}
    >
      {rows.length === 0 && (
        <p className="px-4 py-6 text-center text-muted">This folder is empty. Drop files here.</p>
      )}
      <div role="none" className="relative" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = rows[index];
          if (row === undefined) return null;
          const { path } = row.entry;
          const look = {
            selected: path === selected,
            dropOn: path === dropOn,
            cursor: path === cursor,
          };
          return (
            <Row key={path} row={row} start={start} look={look} onChoose={() => choose(row)} />
          );
        })}
      </div>
    </div>
  );
}

/** What the keys do in the tree, and the row that they mean. */
function treeKeys(
  rows: readonly TreeRow[],
  cursor: string | undefined,
  { onToggle, onRename, onDelete }: FileTreeProps,
  doors: { choose: (row: TreeRow) => void; move: (row: TreeRow) => void },
) {
  const at = Math.max(
    0,
    rows.findIndex(({ entry }) => entry.path === cursor),
  );
  const move = (index: number): void => {
    const row = rows[Math.min(Math.max(0, index), rows.length - 1)];
    if (row !== undefined) doors.move(row);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const row = rows[at];
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const { entry, isOpen } = row;
    const actions: Record<string, () => void> = {
      ArrowDown: () => move(cursor === undefined ? 0 : at + 1),
      ArrowUp: () => move(at - 1),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      ArrowRight: () => (entry.is_dir && !isOpen ? onToggle(entry.path, true) : move(at + 1)),
      ArrowLeft: () =>
        isOpen
          ? onToggle(entry.path, false)
          : move(rows.findIndex((one) => one.entry.path === parentOf(entry.path))),
      Enter: () => doors.choose(row),
      " ": () => doors.choose(row),
      F2: () => onRename(entry),
      Delete: () => onDelete(entry),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  return { current: rows[at], onKeyDown };
}

/** Files that are dropped on a row go to its folder. */
function dropTarget(
  root: string,
  rows: readonly TreeRow[],
  setDropOn: (folder: string | undefined) => void,
  onDropFiles: (folder: string, transfer: DataTransfer) => void,
) {
  const folderAt = (target: EventTarget): string => {
    const path = (target as HTMLElement).closest<HTMLElement>("[data-path]")?.dataset["path"];
    const entry = rows.find((row) => row.entry.path === path)?.entry;
    if (entry === undefined) return root;
    return entry.is_dir ? entry.path : parentOf(entry.path);
  };
  return {
    onDragOver: (event: DragEvent) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      setDropOn(folderAt(event.target));
    },
    onDragLeave: () => setDropOn(undefined),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      event.stopPropagation();
      setDropOn(undefined);
      onDropFiles(folderAt(event.target), event.dataTransfer);
    },
  };
}

function Row(props: {
  row: TreeRow;
  start: number;
  look: { selected: boolean; dropOn: boolean; cursor: boolean };
  onChoose: () => void;
}) {
  const { row, start, look, onChoose } = props;
  const { entry, level, isOpen } = row;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys
    <div
      id={rowId(entry.path)}
      role="treeitem"
      tabIndex={-1}
      aria-level={level}
      aria-selected={look.selected}
      aria-expanded={entry.is_dir ? isOpen : undefined}
      data-path={entry.path}
      onClick={onChoose}
      className={cx(
        "absolute flex w-full cursor-pointer items-center gap-1.5 pr-3 text-sm select-none",
        look.selected ? "bg-accent-soft" : "hover:bg-hover",
        look.dropOn && "bg-accent-soft outline-2 -outline-offset-2 outline-accent",
        look.cursor && "outline-1 -outline-offset-1 outline-line-strong in-focus:outline-accent",
      )}
      style={{
        transform: `translateY(${start}px)`,
        height: ROW_PX,
        paddingLeft: 8 + (level - 1) * INDENT_PX,
      }}
    >
      <ChevronRight
        size={14}
        aria-hidden="true"
        className={cx("shrink-0 text-faint", isOpen && "rotate-90", !entry.is_dir && "invisible")}
      />
      <EntryIcon entry={entry} isOpen={isOpen} />
      <span
        className="min-w-0 flex-1 truncate"
        title={entry.target ? `→ ${entry.target}` : entry.name}
      >
        {entry.name}
      </span>
      {!entry.is_dir && (
        <span className="shrink-0 text-2xs text-faint tabular-nums">{bytes(entry.size)}</span>
      )}
    </div>
  );
}

function EntryIcon({ entry, isOpen }: { entry: FileInfo; isOpen: boolean }) {
  const look = { size: 14, "aria-hidden": true, className: "shrink-0 text-muted" } as const;
  if (entry.is_dir) return isOpen ? <FolderOpen {...look} /> : <Folder {...look} />;
  if (entry.mode === "l") return <FileSymlink {...look} />;
  return imageType(entry.path) ? <FileImage {...look} /> : <File {...look} />;
}

function rowId(path: string): string {
  return `file-${encodeURIComponent(path)}`;
}

/** All folders on the way from the root to a path, so that it can be shown. */
export function foldersTo(root: string, path: string): string[] {
  const folders: string[] = [];
  for (let one = parentOf(path); one.length > root.length && one !== "/"; one = parentOf(one))
    folders.push(one);
  return folders.reverse();
}
