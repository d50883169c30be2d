import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ArrowDownToLine } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { client } from "@/data/client";
import { duration } from "@/data/format";
import { buildQuery, keys } from "@/data/queries";
import {
  Button,
  buildState,
  CopyId,
  Dialog,
  ErrorNote,
  Note,
  RelativeTime,
  Spinner,
  StateBadge,
} from "@/ui";

const LINES_MAX = 20_000;

/** The log of a build as it grows. */
export function BuildLog(props: {
  id: string;
  onClose: () => void;
  onStart: (template: string) => void;
}) {
  const { id, onClose, onStart } = props;
  const { data, error } = useQuery({
    ...buildQuery(id),
    // The stream of events tells the end; this is for servers that do not.
    refetchInterval: (query) => (isOver(query.state.data?.status) ? false : 3_000),
  });
  const { lines, failure, ended } = useLog(id);
  const over = isOver(data?.status);
  return (
    <Dialog
      open
      place="side"
      onClose={onClose}
      title={data ? `Build of ${data.name}` : "Build"}
      description={
        data && (
          <span className="flex flex-wrap items-center gap-x-4 gap-y-1">
            <StateBadge state={buildState(data.status)} />
            <span>
              started <RelativeTime at={data.started_at} />
            </span>
            {data.ended_at && (
              <span>
                took {duration((Date.parse(data.ended_at) - Date.parse(data.started_at)) / 1000)}
              </span>
            )}
            <CopyId id={id} />
          </span>
        )
      }
      footer={
        data?.status === "done" && (
          <Button
            variant="primary"
            onClick={() => {
              onClose();
              onStart(data.name);
            }}
          >
            Start a sandbox from it
          </Button>
        )
      }
    >
      <div className="flex h-full flex-col gap-3">
        {error && <ErrorNote error={error} />}
        {data?.error && <Note tone="warn">{data.error}</Note>}
        {failure !== undefined && <ErrorNote error={failure} title="The log broke off" />}
        <Lines lines={lines} />
        {!over && !ended && (
          <span role="status" className="flex items-center gap-2 text-muted">
            <Spinner size={14} /> Building
          </span>
        )}
      </div>
    </Dialog>
  );
}

function isOver(status: string | undefined): boolean {
  return status === "done" || status === "failed";
}

/** Follows the log. Lines are added in batches, so that a fast log does not render each of them. */
function useLog(id: string): { lines: readonly string[]; failure: unknown; ended: boolean } {
  const queries = useQueryClient();
  const [lines, setLines] = useState<readonly string[]>([]);
  const [failure, setFailure] = useState<unknown>();
  const [ended, setEnded] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    let waiting: string[] = [];
    const flush = (): void => {
      if (waiting.length === 0) return;
      const batch = waiting;
      waiting = [];
      setLines((old) => [...old, ...batch].slice(-LINES_MAX));
    };
    setLines([]);
    const timer = setInterval(flush, 100);
    const follow = async (): Promise<void> => {
      for await (const line of client.templates.buildLogs(id, { signal: stop.signal }))
        waiting.push(line);
    };
    follow()
      .catch((error: unknown) => !stop.signal.aborted && setFailure(error))
      .finally(() => {
        flush();
        clearInterval(timer);
        if (stop.signal.aborted) return;
        setEnded(true);
        void queries.invalidateQueries({ queryKey: keys.builds });
        void queries.invalidateQueries({ queryKey: keys.templates });
      });
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, [id, queries]);
  return { lines, failure, ended };
}

/** The lines. The view stays at the end until the reader scrolls up. */
function Lines({ lines }: { lines: readonly string[] }) {
  const box = useRef<HTMLPreElement>(null);
  const [pinned, setPinned] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines move the view
  useEffect(() => {
    if (pinned && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, pinned]);
  return (
    <div className="relative min-h-0 flex-1">
      <pre
        ref={box}
        role="log"
        aria-label="Log of the build"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) =>
          setPinned(scrollTop + clientHeight >= scrollHeight - 24)
        }
        className="h-full min-h-64 overflow-auto rounded-md border border-line bg-sunken p-3 font-mono text-xs leading-5 break-words whitespace-pre-wrap"
      >
        {lines.join("\n")}
      </pre>
      {!pinned && (
        <Button
          size="sm"
          className="absolute right-3 bottom-3"
          icon={<ArrowDownToLine size={14} />}
          onClick={() => setPinned(true)}
        >
          To the end
        </Button>
      )}
    </div>
  );
}
