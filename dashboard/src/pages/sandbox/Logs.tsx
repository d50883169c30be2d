import { ArrowDownToLine, Eraser, Pause, Play } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { sandboxHandle } from "@/data/client";
import { count } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { Button, ErrorNote, IconButton, SearchInput, Segmented } from "@/ui";
import { withoutColours } from "./code/html";

type Stream = "both" | "stdout" | "stderr";

const LINES_MAX = 5_000;
const FIRST_LINES = 500;
const AGAIN_MS = 3_000;
const GATHER_MS = 100;

/** The console of the machine, as it comes. */
export default function LogsPart({ sandbox }: { sandbox: SandboxInfo }) {
  const [stream, setStream] = useState<Stream>("both");
  const [following, setFollowing] = useState(true);
  const [filter, setFilter] = useState("");
  const { lines, error, clear } = useLines(sandbox.id, stream, following);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const shown = useMemo(() => {
    const word = filter.toLowerCase();
    return word === "" ? lines : lines.filter((line) => line.toLowerCase().includes(word));
  }, [lines, filter]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines move the view
  useEffect(() => {
    const element = box.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [shown]);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Toolbar
        filter={filter}
        onFilter={setFilter}
        stream={stream}
        onStream={setStream}
        following={following}
        onFollowing={setFollowing}
        count={shown.length}
        onClear={clear}
        onSave={() => save(`console-${sandbox.id.slice(0, 8)}.log`, lines)}
      />
      {error !== undefined && <ErrorNote error={error} title="The console cannot be read" />}
      <pre
        role="log"
        ref={box}
        aria-label="Console"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
        }}
        className="min-h-0 flex-1 overflow-auto border-t border-line bg-sunken px-4 py-2 font-mono text-xs leading-5 break-words whitespace-pre-wrap md:px-6"
      >
        {shown.length === 0 ? (
          <span className="text-faint">The console is empty.</span>
        ) : (
          shown.join("\n")
        )}
      </pre>
    </div>
  );
}

function Toolbar(props: {
  filter: string;
  onFilter: (filter: string) => void;
  stream: Stream;
  onStream: (stream: Stream) => void;
  following: boolean;
  onFollowing: (following: boolean) => void;
  count: number;
  onClear: () => void;
  onSave: () => void;
}) {
  const { following } = props;
  return (
    <div
      role="toolbar"
      aria-label="Console"
      className="flex flex-wrap items-center gap-2 px-4 py-2 md:px-6"
    >
      <SearchInput
        label="Filter lines"
        value={props.filter}
        onChange={props.onFilter}
        className="min-w-40 flex-1 md:max-w-72"
      />
      <Segmented
        label="Stream"
        value={props.stream}
        onChange={props.onStream}
        choices={[
          { value: "both", label: "Both" },
          { value: "stdout", label: "Output" },
          { value: "stderr", label: "Errors" },
        ]}
      />
      <span className="flex-1" />
      <span role="status" className="text-xs text-muted">
        {count(props.count)} lines
      </span>
      <Button
        size="sm"
        icon={following ? <Pause size={14} /> : <Play size={14} />}
        onClick={() => props.onFollowing(!following)}
      >
        {following ? "Pause" : "Follow"}
      </Button>
      <IconButton
        size="sm"
        label="Clear the view"
        icon={<Eraser size={14} />}
        onClick={props.onClear}
      />
      <IconButton
        size="sm"
        label="Save the lines"
        icon={<ArrowDownToLine size={14} />}
        onClick={props.onSave}
      />
    </div>
  );
}

function save(name: string, lines: readonly string[]): void {
  const url = URL.createObjectURL(new Blob([lines.join("\n")], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

function useLines(sandboxId: string, stream: Stream, following: boolean) {
  const [lines, setLines] = useState<readonly string[]>([]);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    if (!following) return;
    const stop = new AbortController();
    const { signal } = stop;
    let gathered: string[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = (): void => {
      timer = undefined;
      const more = gathered;
      gathered = [];
      setLines((old) => [...old, ...more].slice(-LINES_MAX));
    };
    const follow = async (): Promise<void> => {
      while (!signal.aborted) {
        try {
          // Every connection starts with the last lines, so the old view goes.
          setLines([]);
          const options = { follow: true, tail: FIRST_LINES, stream, signal };
          for await (const line of sandboxHandle(sandboxId).logs(options)) {
            setError(undefined);
            gathered.push(withoutColours(line));
            timer ??= setTimeout(flush, GATHER_MS);
          }
        } catch (failure) {
          if (!signal.aborted) setError(failure);
        }
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    };
    void follow();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [sandboxId, stream, following]);
  return { lines, error, clear: () => setLines([]) };
}
