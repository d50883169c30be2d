import { useQuery } from "@tanstack/react-query";
import { CirclePlay, Eraser, ListPlus, Play, Plus, RotateCcw, Square, Trash2 } from "lucide-react";
import { useRef, useState, useSyncExternalStore } from "react";
import { useCommands } from "@/app/commands";
import { shortId } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { kernelsQuery } from "@/data/sandbox";
import { Badge, Button, ConfirmDialog, cx, IconButton, Kbd, Select, Spinner } from "@/ui";
import { Awake } from "../Awake";
import { CodeEditor } from "../editor";
import type { Language } from "../editor/languages";
import { type Cell, type Notebook, notebookOf } from "./notebook";
import { Output } from "./Output";

const LANGUAGES: Record<string, { label: string; editor: Language }> = {
  python: { label: "Python", editor: "python" },
  javascript: { label: "JavaScript", editor: "javascript" },
  bash: { label: "Bash", editor: "shell" },
  sh: { label: "Shell", editor: "shell" },
  ruby: { label: "Ruby", editor: "ruby" },
};

/** Code cells with their results. Variables stay from one cell to the next. */
export default function CodePart({ sandbox }: { sandbox: SandboxInfo }) {
  return (
    <Awake sandbox={sandbox} what="its code cells">
      <CodeCells sandboxId={sandbox.id} />
    </Awake>
  );
}

function CodeCells({ sandboxId }: { sandboxId: string }) {
  const notebook = notebookOf(sandboxId);
  const { cells, language } = useSyncExternalStore(notebook.subscribe, notebook.get);
  const [restarting, setRestarting] = useState<string>();
  const isRunning = cells.some(({ state }) => state === "running" || state === "waiting");
  useCodeCommands(notebook, isRunning);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Toolbar
        notebook={notebook}
        sandboxId={sandboxId}
        isRunning={isRunning}
        onRestart={setRestarting}
      />
      <div className="min-h-0 flex-1 overflow-y-auto px-4 py-4 md:px-6">
        <ol aria-label="Cells" className="mx-auto flex max-w-5xl flex-col gap-3">
          {cells.map((cell, at) => (
            <CellView
              key={cell.id}
              cell={cell}
              at={at}
              notebook={notebook}
              isOnly={cells.length === 1}
            />
          ))}
        </ol>
        <div className="mx-auto mt-3 flex max-w-5xl items-center gap-3">
          <Button size="sm" icon={<Plus size={14} />} onClick={() => notebook.add()}>
            Add a cell
          </Button>
          <span className="hidden items-center gap-1 text-xs text-muted sm:flex">
            <Kbd keys="shift+enter" /> runs a cell
          </span>
        </div>
      </div>
      {restarting !== undefined && (
        <ConfirmDialog
          open
          onClose={() => setRestarting(undefined)}
          title={
            restarting === language
              ? "Restart the kernel?"
              : `Start a kernel for ${nameOf(restarting)}?`
          }
          lost={[
            "All variables, imports and open files of this kernel. The code of the cells stays",
          ]}
          action={restarting === language ? "Restart" : "Change the language"}
          onConfirm={() => void notebook.restart(restarting)}
        />
      )}
    </div>
  );
}

function useCodeCommands(notebook: Notebook, isRunning: boolean): void {
  useCommands([
    { id: "run-all", group: "Code", title: "Run all cells", run: () => notebook.runAll() },
    ...(isRunning
      ? [
          {
            id: "interrupt",
            group: "Code",
            title: "Interrupt the running cell",
            run: () => notebook.interrupt(),
          },
        ]
      : []),
  ]);
}

function Toolbar(props: {
  notebook: Notebook;
  sandboxId: string;
  isRunning: boolean;
  /** Asks whether to start the kernel anew, in this language. */
  onRestart: (language: string) => void;
}) {
  const { notebook, sandboxId, isRunning, onRestart } = props;
  return (
    <div
      role="toolbar"
      aria-label="Code"
      className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2 md:px-6"
    >
      <Button size="sm" icon={<CirclePlay size={14} />} onClick={() => notebook.runAll()}>
        Run all
      </Button>
      <Button
        size="sm"
        icon={<Square size={12} />}
        disabled={!isRunning}
        onClick={() => notebook.interrupt()}
      >
        Interrupt
      </Button>
      <IconButton
        size="sm"
        label="Restart the kernel"
        icon={<RotateCcw size={14} />}
        onClick={() => onRestart(notebook.get().language)}
      />
      <IconButton
        size="sm"
        label="Clear the results"
        icon={<Eraser size={14} />}
        onClick={() => notebook.clearResults()}
      />
      <span className="flex-1" />
      <Kernel notebook={notebook} sandboxId={sandboxId} onLanguage={onRestart} />
    </div>
  );
}

function nameOf(language: string): string {
  return LANGUAGES[language]?.label ?? language;
}

/** The kernel: its state, its language, and others that the sandbox has. */
function Kernel(props: {
  notebook: Notebook;
  sandboxId: string;
  onLanguage: (language: string) => void;
}) {
  const { notebook, sandboxId, onLanguage } = props;
  const { kernel, kernelState, language } = useSyncExternalStore(notebook.subscribe, notebook.get);
  const others = useQuery(kernelsQuery(sandboxId, kernel));
  const choose = (value: string): void => {
    const known = others.data?.find(({ id }) => id === value);
    if (known !== undefined) notebook.use(known);
    else if (kernelState === "none") void notebook.restart(value);
    else onLanguage(value);
  };
  return (
    <div className="flex items-center gap-2">
      <span role="status" className="flex items-center gap-1.5 text-xs text-muted">
        {kernelState === "starting" && <Spinner size={12} />}
        {
          { none: "No kernel yet", starting: "Starting", ready: `Kernel ${shortId(kernel ?? "")}` }[
            kernelState
          ]
        }
      </span>
      <Select
        aria-label="Kernel"
        value={kernel ?? language}
        className="h-7! w-auto! text-xs"
        onChange={(event) => choose(event.target.value)}
      >
        <optgroup label="New kernel">
          {Object.entries(LANGUAGES).map(([value, { label }]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </optgroup>
        {others.data !== undefined && others.data.length > 0 && (
          <optgroup label="Kernels of this sandbox">
            {others.data.map((one) => (
              <option key={one.id} value={one.id}>
                {nameOf(one.language)} {shortId(one.id)}
              </option>
            ))}
          </optgroup>
        )}
      </Select>
    </div>
  );
}

function CellView(props: { cell: Cell; at: number; notebook: Notebook; isOnly: boolean }) {
  const { cell, at, notebook, isOnly } = props;
  const { language } = useSyncExternalStore(notebook.subscribe, notebook.get);
  const item = useRef<HTMLLIElement>(null);
  const isBusy = cell.state === "running" || cell.state === "waiting";
  return (
    <li
      ref={item}
      data-cell-state={cell.state}
      className={cx(
        "min-w-0 rounded-lg border bg-panel",
        cell.state === "failed"
          ? "border-danger"
          : cell.state === "running"
            ? "border-accent"
            : "border-line",
      )}
    >
      <div className="flex min-w-0">
        <div className="flex w-11 shrink-0 flex-col items-center gap-1 py-2">
          <IconButton
            size="sm"
            label={isBusy ? "Interrupt" : `Run cell ${at + 1}`}
            {...(isBusy ? {} : { shortcut: "shift+enter" })}
            icon={isBusy ? <Spinner size={14} /> : <Play size={14} />}
            onClick={() => (isBusy ? notebook.interrupt() : notebook.run(cell.id))}
          />
          <span className="font-mono text-2xs text-faint">[{cell.number ?? " "}]</span>
        </div>
        <div className="min-w-0 flex-1 border-l border-line">
          <CodeEditor
            label={`Code of cell ${at + 1}`}
            value={cell.code}
            language={LANGUAGES[language]?.editor ?? "text"}
            placeholder={at === 0 ? "print(1 + 1)" : ""}
            onChange={(code) => notebook.edit(cell.id, code)}
            keys={{
              "Shift-Enter": () => runAndGo(notebook, cell, item.current),
              "Mod-Enter": () => notebook.run(cell.id),
            }}
          />
        </div>
        <CellTools cell={cell} at={at} notebook={notebook} isOnly={isOnly} />
      </div>
      {(cell.result !== undefined || cell.error !== undefined || cell.state === "stopped") && (
        <div className="border-t border-line">
          <Output cell={cell} />
        </div>
      )}
    </li>
  );
}

function CellTools(props: { cell: Cell; at: number; notebook: Notebook; isOnly: boolean }) {
  const { cell, at, notebook, isOnly } = props;
  return (
    <div className="flex shrink-0 flex-col py-2 pr-1">
      {cell.state === "waiting" && <Badge>waits</Badge>}
      <IconButton
        size="sm"
        label="Add a cell below"
        icon={<ListPlus size={14} />}
        onClick={() => notebook.add(cell.id)}
      />
      {!isOnly && (
        <IconButton
          size="sm"
          label={`Remove cell ${at + 1}`}
          icon={<Trash2 size={14} />}
          onClick={() => notebook.remove(cell.id)}
        />
      )}
    </div>
  );
}

/** Runs a cell and goes to the next one. After the last one there is a new one. */
function runAndGo(notebook: Notebook, cell: Cell, item: HTMLElement | null): void {
  notebook.run(cell.id);
  const next = () => item?.nextElementSibling?.querySelector("[data-editor]");
  if (next()) focusEditor(next());
  else {
    notebook.add(cell.id);
    requestAnimationFrame(() => focusEditor(next()));
  }
}

function focusEditor(host: Element | null | undefined): void {
  host?.shadowRoot?.querySelector<HTMLElement>(".cm-content")?.focus();
}
