import { Play, RotateCw, Square, Trash2 } from "lucide-react";
import { type KeyboardEvent, useState, useSyncExternalStore } from "react";
import { millis } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import {
  Badge,
  Button,
  CopyText,
  EmptyState,
  ErrorNote,
  Field,
  IconButton,
  Input,
  RelativeTime,
  Select,
  Snippets,
  Spinner,
} from "@/ui";
import { Pieces } from "../Pieces";
import { recall } from "./history";
import { type Run, runsOf } from "./runs";

const LIMITS: readonly [number, string][] = [
  [30, "30 seconds"],
  [300, "5 minutes"],
  [3600, "1 hour"],
  [0, "No limit"],
];
const LIMIT_DEFAULT = 300;

/** Runs one command at a time and shows what it printed. A sleeping sandbox wakes for it. */
export default function CommandsPart({ sandbox }: { sandbox: SandboxInfo }) {
  const runs = runsOf(sandbox.id);
  const list = useSyncExternalStore(runs.subscribe, runs.get);
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      <CommandForm
        history={list}
        onRun={(command, cwd, timeoutSeconds) => runs.start(command, { cwd, timeoutSeconds })}
      />
      {list.length === 0 ? (
        <NoCommands id={sandbox.id} />
      ) : (
        <>
          <div className="flex items-center justify-between">
            <h2 className="text-sm font-semibold">History</h2>
            <Button
              size="sm"
              variant="ghost"
              icon={<Trash2 size={14} />}
              onClick={() => runs.clear()}
            >
              Clear
            </Button>
          </div>
          <ol className="flex flex-col gap-3">
            {list.map((one) => (
              <RunView
                key={one.id}
                run={one}
                onAgain={() =>
                  runs.start(one.command, { cwd: one.cwd, timeoutSeconds: LIMIT_DEFAULT })
                }
                onStop={() => runs.stop(one.id)}
              />
            ))}
          </ol>
        </>
      )}
    </div>
  );
}

function NoCommands({ id }: { id: string }) {
  return (
    <EmptyState title="No commands yet">
      <p>Run one above, or from your code:</p>
      <Snippets
        label="Run a command"
        snippets={{
          CLI: `pandastack exec ${id.slice(0, 8)} -- uname -a`,
          Python: 'print(sandbox.exec("uname -a").stdout)',
          TypeScript: 'console.log((await sandbox.exec("uname -a")).stdout);',
        }}
      />
    </EmptyState>
  );
}

function CommandForm(props: {
  history: readonly Run[];
  onRun: (command: string, cwd: string, timeoutSeconds: number) => void;
}) {
  const { history, onRun } = props;
  const [text, setText] = useState("");
  const [cwd, setCwd] = useState("");
  const [limit, setLimit] = useState(LIMIT_DEFAULT);
  return (
    <form
      className="flex flex-wrap items-end gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim() === "") return;
        onRun(text, cwd.trim(), limit);
        setText("");
      }}
    >
      <CommandInput history={history} text={text} onText={setText} />
      <Field label="Folder" className="min-w-28 flex-1">
        {(control) => (
          <Input
            {...control}
            value={cwd}
            placeholder="/root"
            spellCheck={false}
            className="font-mono text-xs"
            onChange={(event) => setCwd(event.target.value)}
          />
        )}
      </Field>
      <Field label="Ends after">
        {(control) => (
          <Select
            {...control}
            value={limit}
            onChange={(event) => setLimit(Number(event.target.value))}
          >
            {LIMITS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Button
        type="submit"
        variant="primary"
        icon={<Play size={14} />}
        disabled={text.trim() === ""}
      >
        Run
      </Button>
    </form>
  );
}

/** The line of the command. The arrow keys bring earlier ones back. */
function CommandInput(props: {
  history: readonly Run[];
  text: string;
  onText: (text: string) => void;
}) {
  const { history, text, onText } = props;
  const [recalled, setRecalled] = useState(-1);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter") setRecalled(-1);
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key] as 1 | -1 | undefined;
    if (step === undefined || (recalled < 0 && step < 0)) return;
    event.preventDefault();
    const at = recall(history, recalled, step);
    setRecalled(at);
    onText(history[at]?.command ?? "");
  };
  return (
    <Field label="Command" className="min-w-60 flex-[3]">
      {(control) => (
        <Input
          {...control}
          value={text}
          placeholder="ls -la"
          spellCheck={false}
          autoComplete="off"
          className="font-mono text-xs"
          onKeyDown={onKeyDown}
          onChange={(event) => {
            onText(event.target.value);
            setRecalled(-1);
          }}
        />
      )}
    </Field>
  );
}

function RunView({ run, onAgain, onStop }: { run: Run; onAgain: () => void; onStop: () => void }) {
  const { command, cwd, at, state, exitCode, durationMs, pieces, error } = run;
  return (
    <li
      data-run-state={state}
      className="min-w-0 overflow-hidden rounded-lg border border-line bg-panel"
    >
      <div className="flex items-center gap-2 px-3 py-1.5">
        {state === "running" && <Spinner size={14} />}
        <CopyText text={command} className="min-w-0 flex-1 justify-start text-ink!" />
        {cwd !== "" && (
          <span className="hidden font-mono text-2xs text-faint sm:inline">{cwd}</span>
        )}
        {exitCode !== undefined && (
          <Badge tone={exitCode === 0 ? "ok" : "danger"}>exit {exitCode}</Badge>
        )}
        {state === "stopped" && <Badge>stopped</Badge>}
        <span className="hidden text-xs text-muted sm:inline">
          {durationMs !== undefined && `${millis(durationMs)} · `}
          <RelativeTime at={at} />
        </span>
        {state === "running" ? (
          <IconButton size="sm" label="Stop" icon={<Square size={12} />} onClick={onStop} />
        ) : (
          <IconButton
            size="sm"
            label={`Run again: ${command.slice(0, 40)}`}
            icon={<RotateCw size={14} />}
            onClick={onAgain}
          />
        )}
      </div>
      {error !== undefined && <ErrorNote error={error} title="The command failed" />}
      {pieces.length > 0 && (
        <Pieces pieces={pieces} follow={state === "running"} label={`Output of ${command}`} />
      )}
      {state === "done" && pieces.length === 0 && (
        <p className="px-3 pb-2 text-xs text-faint">No output</p>
      )}
    </li>
  );
}
