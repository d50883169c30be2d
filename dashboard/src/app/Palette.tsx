import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from "react";
import type { DatabaseInfo } from "@/data/databases";
import { ofKind } from "@/data/kinds";
import { keys, type SandboxInfo } from "@/data/queries";
import { cx, Kbd, StateDot } from "@/ui";
import { type Command, useAllCommands } from "./commands";
import { PAGES } from "./pages";
import { search } from "./search";

const SHOWN_MAX = 40;
const SANDBOXES_MAX = 200;
const DATABASES_MAX = 100;

interface Entry extends Command {
  readonly state?: string;
}

/** Finds and opens everything: pages, actions of the shell and of the page, machines, databases. */
export function Palette({ open, onClose }: { open: boolean; onClose: () => void }) {
  if (!open) return null;
  return <OpenPalette onClose={onClose} />;
}

function OpenPalette({ onClose }: { onClose: () => void }) {
  const ref = useModal();
  const list = useRef<HTMLDivElement>(null);
  const [query, setQuery] = useState("");
  const [active, setActive] = useState(0);
  const id = useId();
  const entries = useEntries();
  const found = useMemo(() => search(entries, query, SHOWN_MAX), [entries, query]);
  const groups = useMemo(() => grouped(found), [found]);
  const flat = groups.flatMap(([, items]) => items);

  const run = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    onClose();
    // After the dialog has given the focus back, so that the next one can keep it.
    setTimeout(entry.run, 0);
  };
  const move = (to: number): void => {
    const next = (to + flat.length) % Math.max(1, flat.length);
    setActive(next);
    list.current?.querySelector(`[data-at="${next}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") move(active + 1);
    else if (event.key === "ArrowUp") move(active - 1);
    else if (event.key === "Enter") run(flat[active]);
    else return;
    event.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog
    <dialog
      ref={ref}
      aria-label="Search pages and actions"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
      className="mx-auto mt-[10vh] w-[calc(100%-2rem)] max-w-xl animate-appear rounded-lg border border-line bg-panel p-0 shadow-pop"
    >
      <input
        role="combobox"
        aria-label="Search pages and actions"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={flat[active] ? `${id}-${active}` : undefined}
        placeholder="Find a page, a sandbox or an action"
        value={query}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => {
          setQuery(event.target.value);
          setActive(0);
        }}
        onKeyDown={onKeyDown}
        className="h-11 w-full border-b border-line bg-transparent px-4 text-base outline-none placeholder:text-faint"
      />
      <div
        ref={list}
        id={`${id}-list`}
        role="listbox"
        aria-label="Results"
        className="max-h-[50vh] overflow-y-auto p-1.5"
      >
        <Results id={id} groups={groups} active={active} onActive={setActive} onRun={run} />
      </div>
    </dialog>
  );
}

/** Shows the dialog above everything, and gives the focus back in the end. */
function useModal(): RefObject<HTMLDialogElement | null> {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return ref;
}

function Results(props: {
  id: string;
  groups: readonly [string, Entry[]][];
  active: number;
  onActive: (at: number) => void;
  onRun: (entry: Entry) => void;
}) {
  const { id, groups, active, onActive, onRun } = props;
  if (groups.length === 0) {
    return <p className="px-2 py-6 text-center text-muted">Nothing is called so.</p>;
  }
  let at = -1;
  return groups.map(([group, items]) => (
    <div key={group} role="group" aria-label={group}>
      <div aria-hidden="true" className="px-2 pt-2 pb-1 text-2xs font-medium text-faint">
        {group}
      </div>
      {items.map((entry) => {
        at += 1;
        const index = at;
        return (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input handles the keys
          <div
            key={entry.id}
            id={`${id}-${index}`}
            data-at={index}
            role="option"
            tabIndex={-1}
            aria-selected={index === active}
            onPointerMove={() => onActive(index)}
            onClick={() => onRun(entry)}
            className={cx(
              "flex h-8 cursor-pointer items-center gap-2 rounded px-2 text-sm",
              index === active && "bg-hover",
            )}
          >
            {entry.state !== undefined && <StateDot state={entry.state} />}
            <span className="min-w-0 flex-1 truncate">{entry.title}</span>
            {entry.shortcut !== undefined && <Kbd keys={entry.shortcut} />}
          </div>
        );
      })}
    </div>
  ));
}

function useEntries(): Entry[] {
  const commands = useAllCommands();
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useMemo(() => {
    const pages = PAGES.map((page) => ({
      id: `page-${page.path}`,
      group: "Pages",
      title: page.title,
      words: page.words,
      shortcut: `g ${page.key}`,
      run: () => void navigate({ to: page.path }),
    }));
    const sandboxes = ofKind(queries.getQueryData<SandboxInfo[]>(keys.sandboxes) ?? [])
      .slice(0, SANDBOXES_MAX)
      .map(({ id, template, status, metadata }) => ({
        id: `sandbox-${id}`,
        group: "Sandboxes",
        title: `${metadata?.["name"] ?? id} · ${template}`,
        words: [id, ...Object.entries(metadata ?? {}).flat()].join(" "),
        state: status,
        run: () => void navigate({ to: "/sandboxes/$id", params: { id } }),
      }));
    const databases = (queries.getQueryData<DatabaseInfo[]>(keys.databases) ?? [])
      .slice(0, DATABASES_MAX)
      .map(({ id, label, status }) => ({
        id: `database-${id}`,
        group: "Databases",
        title: label || id,
        words: `${id} postgres`,
        state: status,
        run: () => void navigate({ to: "/databases/$id", params: { id } }),
      }));
    return [...pages, ...commands, ...databases, ...sandboxes];
  }, [commands, navigate, queries]);
}

/** In the order of the best entry of each group. */
function grouped(entries: readonly Entry[]): [string, Entry[]][] {
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) {
    const group = groups.get(entry.group);
    if (group) group.push(entry);
    else groups.set(entry.group, [entry]);
  }
  return [...groups];
}
