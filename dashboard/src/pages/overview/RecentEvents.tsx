import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { eventText } from "@/data/eventText";
import { shortId } from "@/data/format";
import { isShownEvent } from "@/data/kinds";
import { eventsQuery } from "@/data/queries";
import { Card, cx, RelativeTime, Segmented, SkeletonRows } from "@/ui";

const SHOWN = 12;

const DOTS = {
  neutral: "bg-dot-off",
  ok: "bg-dot-ok",
  warn: "bg-dot-warn",
  danger: "bg-dot-danger",
  info: "bg-dot-info",
  sleep: "bg-dot-sleep",
};

/** What happened last in the workspace. */
export function RecentEvents() {
  const { data: events, isError } = useQuery(eventsQuery);
  const [kind, setKind] = useState<"sandbox" | "all">("sandbox");
  const data = useMemo(() => events?.filter((event) => isShownEvent(event, kind)), [events, kind]);
  return (
    <Card
      title="Recent events"
      flush
      actions={
        <Segmented
          label="Events of"
          value={kind}
          onChange={setKind}
          choices={[
            { value: "sandbox", label: "Sandboxes" },
            { value: "all", label: "All machines" },
          ]}
        />
      }
    >
      {data === undefined && !isError && <SkeletonRows rows={4} />}
      {isError && <p className="px-4 pb-4 text-muted">The events could not be read.</p>}
      {data?.length === 0 && (
        <p className="px-4 pb-4 text-muted">Nothing has happened since the server started.</p>
      )}
      <ol className="flex flex-col pb-2">
        {data?.slice(0, SHOWN).map((event) => {
          const { text, tone } = eventText(event.kind, event.payload);
          return (
            <li
              key={event.id || `${event.ts}${event.kind}`}
              className="flex items-baseline gap-2 px-4 py-1"
            >
              <span
                aria-hidden="true"
                className={cx("size-1.5 shrink-0 translate-y-[-2px] rounded-full", DOTS[tone])}
              />
              <span className="min-w-0 flex-1 truncate" title={event.kind}>
                {event.sandbox_id !== undefined && (
                  <Link
                    to={event.database_id ? "/databases/$id" : "/sandboxes/$id"}
                    params={{ id: event.sandbox_id }}
                    className="font-mono text-xs hover:underline"
                  >
                    {shortId(event.sandbox_id)}
                  </Link>
                )}{" "}
                {text}
              </span>
              <RelativeTime at={event.ts} className="text-xs whitespace-nowrap text-muted" />
            </li>
          );
        })}
      </ol>
    </Card>
  );
}
