import { useQuery } from "@tanstack/react-query";
import { ArrowDownToLine, Pause, Play } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { type DatabaseInfo, databaseLogsQuery } from "@/data/databases";
import { plural, shortId } from "@/data/format";
import { Button, ErrorNote, IconButton, SearchInput, Skeleton } from "@/ui";
import { save } from "../usage/save";
import { AwakeDatabase } from "./AwakeDatabase";

/** The log of the server. */
export default function LogsPart({ database }: { database: DatabaseInfo }) {
  return (
    <AwakeDatabase database={database} what="its log">
      <Log id={database.id} />
    </AwakeDatabase>
  );
}

function Log({ id }: { id: string }) {
  const [isFollowing, setFollowing] = useState(true);
  const [filter, setFilter] = useState("");
  const query = databaseLogsQuery(id);
  const { data, error, refetch } = useQuery({
    ...query,
    ...(isFollowing ? {} : { refetchInterval: false as const }),
  });
  const shown = useMemo(() => {
    const lines = (data ?? "").split("\n").filter((line) => line !== "");
    const word = filter.toLowerCase();
    return word === "" ? lines : lines.filter((line) => line.toLowerCase().includes(word));
  }, [data, filter]);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div
        role="toolbar"
        aria-label="Log"
        className="flex flex-wrap items-center gap-2 px-4 py-2 md:px-6"
      >
        <SearchInput
          label="Filter lines"
          value={filter}
          onChange={setFilter}
          className="min-w-40 flex-1 md:max-w-72"
        />
        <span className="flex-1" />
        <span role="status" className="text-xs text-muted">
          {plural(shown.length, "line")}
        </span>
        <Button
          size="sm"
          icon={isFollowing ? <Pause size={14} /> : <Play size={14} />}
          onClick={() => setFollowing(!isFollowing)}
        >
          {isFollowing ? "Pause" : "Follow"}
        </Button>
        <IconButton
          size="sm"
          label="Save the lines"
          disabled={data === undefined}
          icon={<ArrowDownToLine size={14} />}
          onClick={() => save(`database-${shortId(id)}.log`, data ?? "", "text/plain")}
        />
      </div>
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error ? <Skeleton className="m-4 h-40" /> : <Lines lines={shown} />}
    </div>
  );
}

function Lines({ lines }: { lines: readonly string[] }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines move the view
  useEffect(() => {
    const element = box.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  return (
    <pre
      role="log"
      ref={box}
      aria-label="Log of the server"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
      className="min-h-0 flex-1 overflow-auto border-t border-line bg-sunken px-4 py-2 font-mono text-xs leading-5 break-words whitespace-pre-wrap md:px-6"
    >
      {lines.length === 0 ? (
        <span className="text-faint">There are no lines to show.</span>
      ) : (
        lines.join("\n")
      )}
    </pre>
  );
}
