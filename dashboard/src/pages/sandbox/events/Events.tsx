import type { WorkspaceEvent } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { onEvent } from "@/data/events";
import type { SandboxInfo } from "@/data/queries";
import { sandboxEventsQuery } from "@/data/sandbox";
import { Badge, EmptyState, ErrorNote, RelativeTime, SearchInput, SkeletonRows } from "@/ui";
import { eventTone, type SeenEvent, shortPayload, withEvent } from "./list";

/** What happened to a sandbox, newest first, as it happens. */
export default function EventsPart({ sandbox }: { sandbox: SandboxInfo }) {
  const { list, error, refetch } = useSandboxEvents(sandbox.id);
  const [filter, setFilter] = useState("");
  const shown = useMemo(() => {
    const word = filter.toLowerCase();
    return list?.filter((one) =>
      `${one.kind} ${shortPayload(one.payload)}`.toLowerCase().includes(word),
    );
  }, [list, filter]);
  return (
    <div className="flex flex-col gap-3 px-4 py-4 md:px-6">
      <SearchInput
        label="Filter events"
        value={filter}
        onChange={setFilter}
        className="md:max-w-80"
      />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {shown === undefined && !error && <SkeletonRows rows={6} />}
      {shown?.length === 0 && <EmptyState title="No events" />}
      <ol aria-label="Events" className="flex flex-col">
        {shown?.map((event) => (
          <li
            key={`${event.ts} ${event.kind} ${shortPayload(event.payload)}`}
            className="border-b border-line py-1.5"
          >
            <details>
              <summary className="flex cursor-pointer items-center gap-3 rounded">
                <span className="w-24 shrink-0 text-xs text-muted">
                  <RelativeTime at={event.ts} />
                </span>
                <Badge tone={eventTone(event.kind)}>{event.kind}</Badge>
                <span className="min-w-0 flex-1 truncate font-mono text-2xs text-muted">
                  {shortPayload(event.payload)}
                </span>
              </summary>
              <pre className="mt-2 overflow-x-auto rounded bg-sunken p-2 font-mono text-xs">
                {JSON.stringify(event.payload, null, 2)}
              </pre>
            </details>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** The events of a sandbox: what the server remembers, and what comes by the page's stream. */
export function useSandboxEvents(id: string) {
  const { data, error, refetch } = useQuery(sandboxEventsQuery(id));
  const [live, setLive] = useState<readonly SeenEvent[]>([]);
  useEffect(() => {
    setLive([]);
    return onEvent((event: WorkspaceEvent) => {
      if (event.sandbox_id === id) setLive((old) => withEvent(old, event));
    });
  }, [id]);
  const list = useMemo(() => {
    if (data === undefined) return undefined;
    let all: readonly SeenEvent[] = live;
    for (const { type, ts, payload } of [...data].reverse()) {
      if (!live.some((one) => one.kind === type && one.ts === ts))
        all = [...all, { kind: type, ts, payload }];
    }
    return all;
  }, [data, live]);
  return { list, error, refetch };
}
