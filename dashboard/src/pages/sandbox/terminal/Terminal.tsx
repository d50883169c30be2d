import "@xterm/xterm/css/xterm.css";
import { useQueryClient } from "@tanstack/react-query";
import { Moon, Pause, Plus, RotateCw, X } from "lucide-react";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { useCommands } from "@/app/commands";
import { useThemeVersion } from "@/app/theme";
import { useSandboxActions } from "@/data/actions";
import { patchSandbox } from "@/data/cache";
import type { SandboxInfo } from "@/data/queries";
import { Button, cx, errorParts, IconButton, Spinner, useTimeText } from "@/ui";
import { ShellSession } from "./session";

interface Tab {
  readonly key: number;
  readonly session: ShellSession;
}

const TABS_MAX = 8;

/** The shells of a sandbox. The first one is opened at once. */
function useShells({ id, status }: SandboxInfo) {
  const theme = useThemeVersion();
  const [tabs, setTabs] = useState<readonly Tab[]>([]);
  const [active, setActive] = useState(0);
  const next = useRef(1);
  const all = useRef<readonly Tab[]>([]);
  all.current = tabs;

  const open = (): void => {
    if (all.current.length >= TABS_MAX) return;
    const key = next.current++;
    setTabs((old) => [...old, { key, session: new ShellSession(id, status, theme) }]);
    setActive(key);
  };
  const close = (key: number): void => {
    const at = all.current.findIndex((tab) => tab.key === key);
    all.current[at]?.session.close();
    const rest = all.current.filter((tab) => tab.key !== key);
    setTabs(rest);
    if (key === active) setActive(rest[Math.min(at, rest.length - 1)]?.key ?? 0);
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: the first shell, once
  useEffect(() => {
    const session = new ShellSession(id, status, theme);
    const key = 1;
    next.current = 2;
    setTabs([{ key, session }]);
    setActive(key);
    return () => {
      session.close();
      for (const tab of all.current) tab.session.close();
      setTabs([]);
    };
  }, [id]);
  useEffect(() => {
    for (const { session } of tabs) session.setTheme(theme);
  }, [tabs, theme]);
  useEffect(() => {
    for (const { session } of tabs) session.sandboxChanged(status);
  }, [tabs, status]);
  return { tabs, active, setActive, open, close };
}

/** Shells of a sandbox, in tabs. It stays mounted while other parts of the page are shown. */
export default function TerminalPart({ sandbox, shown }: { sandbox: SandboxInfo; shown: boolean }) {
  const { tabs, active, setActive, open, close } = useShells(sandbox);
  useCommands(
    shown ? [{ id: "new-shell", group: "Sandbox", title: "Open another shell", run: open }] : [],
  );
  return (
    <div className="flex h-full min-h-0 flex-col" data-keys="own">
      <div className="flex items-center gap-1 border-b border-line bg-sunken px-2 py-1">
        <ShellTabs tabs={tabs} active={active} onActive={setActive} onClose={close} />
        <IconButton
          label="Open another shell"
          size="sm"
          icon={<Plus size={14} />}
          disabled={tabs.length >= TABS_MAX}
          onClick={open}
        />
      </div>
      <div className="relative min-h-0 flex-1">
        {tabs.map(({ key, session }) => (
          <Screen
            key={key}
            name={key}
            session={session}
            sandboxId={sandbox.id}
            shown={shown && key === active}
          />
        ))}
      </div>
    </div>
  );
}

function ShellTabs(props: {
  tabs: readonly Tab[];
  active: number;
  onActive: (key: number) => void;
  onClose: (key: number) => void;
}) {
  const { tabs, active, onActive, onClose } = props;
  return (
    <div role="tablist" aria-label="Shells" className="flex min-w-0 gap-1 overflow-x-auto">
      {tabs.map(({ key }, at) => (
        <span
          key={key}
          className={cx(
            "flex shrink-0 items-center rounded",
            key === active ? "bg-panel text-ink shadow-sm" : "text-muted hover:text-ink",
          )}
        >
          <button
            type="button"
            role="tab"
            id={`shell-tab-${key}`}
            aria-selected={key === active}
            aria-controls={`shell-${key}`}
            tabIndex={key === active ? 0 : -1}
            className="px-2 py-1 text-xs focus-visible:outline-offset-[-2px]"
            onClick={() => onActive(key)}
            onKeyDown={(event) => {
              const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
              const other = step && tabs[(at + step + tabs.length) % tabs.length];
              if (!other) return;
              onActive(other.key);
              document.getElementById(`shell-tab-${other.key}`)?.focus();
            }}
          >
            Shell {key}
          </button>
          {tabs.length > 1 && (
            <button
              type="button"
              aria-label={`Close shell ${key}`}
              tabIndex={key === active ? 0 : -1}
              className="rounded p-1 text-faint hover:text-ink"
              onClick={() => onClose(key)}
            >
              <X size={12} />
            </button>
          )}
        </span>
      ))}
    </div>
  );
}

function Screen(props: { name: number; session: ShellSession; sandboxId: string; shown: boolean }) {
  const { name, session, sandboxId, shown } = props;
  const box = useRef<HTMLDivElement>(null);
  const state = useSyncExternalStore(session.subscribe, session.snapshot);
  useEffect(() => (box.current === null ? undefined : session.attach(box.current)), [session]);
  useEffect(() => {
    if (shown) session.focus();
  }, [session, shown]);
  const queries = useQueryClient();
  // A shell is the proof that the machine runs, also while the event stream is cut.
  useEffect(() => {
    if (state.kind === "open") patchSandbox(queries, sandboxId, { status: "running" });
  }, [queries, sandboxId, state.kind]);
  return (
    <div
      role="tabpanel"
      id={`shell-${name}`}
      aria-labelledby={`shell-tab-${name}`}
      data-shell-state={state.kind}
      className={cx("absolute inset-0 flex flex-col", !shown && "invisible")}
    >
      <Notice session={session} sandboxId={sandboxId} />
      <div
        ref={box}
        className="terminal-box min-h-0 flex-1 overflow-hidden bg-[#ffffff] p-2 dark:bg-[#0f1311]"
      />
    </div>
  );
}

/** Why the shell takes no input now, and what helps. */
function Notice({ session, sandboxId }: { session: ShellSession; sandboxId: string }) {
  const state = useSyncExternalStore(session.subscribe, session.snapshot);
  const actions = useSandboxActions();
  const wait = useTimeText((now) =>
    state.kind === "waiting" ? `${Math.max(1, Math.ceil((state.until - now) / 1000))} s` : "",
  );
  const connect = (): void => {
    void session.connect();
    session.focus();
  };
  if (state.kind === "open" || state.kind === "ended") return null;
  const row = "flex flex-wrap items-center gap-2 border-b border-line bg-panel px-3 py-2 text-sm";
  if (state.kind === "connecting") {
    return (
      <div role="status" className={row}>
        <Spinner size={14} /> Connecting…
      </div>
    );
  }
  if (state.kind === "asleep") {
    return (
      <div role="status" className={row}>
        <Moon size={14} className="text-sleep" aria-hidden="true" />
        <span className="flex-1">The sandbox sleeps. Type, and it wakes.</span>
        <Button size="sm" onClick={connect}>
          Wake it
        </Button>
      </div>
    );
  }
  if (state.kind === "paused") {
    return (
      <div role="status" className={row}>
        <Pause size={14} className="text-warn" aria-hidden="true" />
        <span className="flex-1">The sandbox is paused.</span>
        <Button size="sm" onClick={() => void actions.run("resume", [sandboxId])}>
          Resume
        </Button>
      </div>
    );
  }
  if (state.kind === "gone") return <div className={row}>The sandbox is deleted.</div>;
  return (
    <div role="alert" className={row}>
      <span className="min-w-0 flex-1 break-words">
        {state.kind === "waiting" && `Connecting again in ${wait}. `}
        <span className="text-muted">{errorParts(state.error).text}</span>
      </span>
      <Button size="sm" icon={<RotateCw size={14} />} onClick={connect}>
        Connect now
      </Button>
    </div>
  );
}
