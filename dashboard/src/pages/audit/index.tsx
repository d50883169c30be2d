import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { count, exactTime, millis } from "@/data/format";
import { auditQuery } from "@/data/queries";
import {
  Badge,
  Button,
  type Column,
  CopyText,
  Dialog,
  EmptyState,
  ErrorNote,
  PageHeader,
  RelativeTime,
  SearchInput,
  Segmented,
  Select,
  SkeletonRows,
  Table,
  type Tone,
  toast,
} from "@/ui";
import { save } from "../usage/save";

type Period = "1h" | "6h" | "24h" | "7d";

const PERIODS: readonly { value: Period; label: string; ms: number }[] = [
  { value: "1h", label: "1 h", ms: 3_600_000 },
  { value: "6h", label: "6 h", ms: 6 * 3_600_000 },
  { value: "24h", label: "24 h", ms: 24 * 3_600_000 },
  { value: "7d", label: "7 d", ms: 7 * 24 * 3_600_000 },
];

const COLUMNS: readonly Column<models.AuditEntry>[] = [
  {
    id: "ts",
    header: "When",
    width: "92px",
    sort: (row) => row.ts,
    cell: (row) => <RelativeTime at={row.ts} />,
  },
  {
    id: "actor",
    header: "Who",
    width: "minmax(110px, 1fr)",
    from: 460,
    sort: actorOf,
    cell: (row) => <span title={row.actor}>{actorOf(row)}</span>,
  },
  {
    id: "path",
    header: "What",
    width: "minmax(150px, 2.4fr)",
    sort: (row) => row.path,
    cell: (row) => (
      <span className="font-mono text-xs" title={`${row.method} ${row.path}`}>
        <span className="text-muted">{row.method}</span> {row.path.replace(/^\/v1/, "")}
      </span>
    ),
  },
  {
    id: "status",
    header: "Answer",
    width: "72px",
    sort: (row) => row.status,
    cell: (row) => <Badge tone={toneOf(row.status)}>{row.status}</Badge>,
  },
  {
    id: "took",
    header: "Took",
    width: "80px",
    align: "end",
    from: 640,
    sort: (row) => row.duration_ms,
    cell: (row) => millis(row.duration_ms),
  },
  {
    id: "request",
    header: "Request",
    width: "minmax(110px, 0.8fr)",
    from: 820,
    cell: (row) => <CopyText text={row.request_id} label={row.request_id.slice(0, 13)} />,
  },
];

/** Every changing request, with who sent it. */
export function Audit() {
  const [period, setPeriod] = useState<Period>("24h");
  const [method, setMethod] = useState("");
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState<models.AuditEntry>();
  const since = useMemo(() => sinceOf(period), [period]);
  const { data, error, refetch } = useQuery(auditQuery({ since, ...(method ? { method } : {}) }));
  const rows = useMemo(() => (data ?? []).filter((row) => matches(row, query)), [data, query]);
  return (
    <div className="flex h-full flex-col">
      <PageHeader
        title="Audit"
        aside={data && <Badge>{count(rows.length)}</Badge>}
        description="Every changing request of the workspace. The entries form a chain that shows if one is missing."
        actions={
          <Button icon={<Download size={14} />} onClick={() => void exportAll()}>
            Export
          </Button>
        }
      />
      <div className="flex flex-wrap items-center gap-2 px-4 pb-3 md:px-6">
        <SearchInput
          label="Filter the audit trail"
          placeholder="Filter by person, path, status or request id"
          value={query}
          onChange={setQuery}
          className="min-w-44 flex-1 md:max-w-96"
        />
        <Segmented label="Period" value={period} onChange={setPeriod} choices={PERIODS} />
        <Select
          aria-label="Method"
          value={method}
          onChange={(event) => setMethod(event.target.value)}
          className="w-36!"
        >
          <option value="">All methods</option>
          {["POST", "PUT", "PATCH", "DELETE"].map((one) => (
            <option key={one}>{one}</option>
          ))}
        </Select>
      </div>
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows rows={10} />}
      {data !== undefined && (
        <Table
          fill
          label="Audit entries"
          rows={rows}
          rowId={({ entry, request_id, ts }) => entry || `${request_id}${ts}`}
          columns={COLUMNS}
          onOpen={setOpen}
          rowHeight={36}
          empty={
            <EmptyState title="No entry fits">
              {<p>Choose a longer period or another filter.</p>}
            </EmptyState>
          }
        />
      )}
      {open && <EntrySheet entry={open} onClose={() => setOpen(undefined)} />}
    </div>
  );
}

function EntrySheet({ entry, onClose }: { entry: models.AuditEntry; onClose: () => void }) {
  const facts: [string, string | undefined][] = [
    ["When", exactTime(entry.ts)],
    ["Who", entry.actor_email ?? entry.actor],
    ["Actor", entry.actor],
    ["Key", entry.key_prefix],
    ["From", entry.address],
    ["Route", entry.route],
    ["Path", entry.path],
    ["Answer", String(entry.status)],
    ["Took", millis(entry.duration_ms)],
    ["Request", entry.request_id],
    ["Entry", entry.entry],
    ["Number", entry.number === undefined ? undefined : String(entry.number)],
  ];
  return (
    <Dialog open place="side" onClose={onClose} title={`${entry.method} ${entry.path}`}>
      <dl className="grid grid-cols-[6rem_1fr] gap-x-4 gap-y-2">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-muted">{name}</dt>
              <dd className="min-w-0 break-all">
                <CopyText text={value ?? ""} className="text-left text-ink" />
              </dd>
            </div>
          ))}
      </dl>
    </Dialog>
  );
}

async function exportAll(): Promise<void> {
  try {
    const entries = await client.audit.export();
    save(
      "audit.jsonl",
      entries.map((entry) => JSON.stringify(entry)).join("\n"),
      "application/jsonl",
    );
  } catch (error) {
    toast.error(error);
  }
}

function sinceOf(period: Period): string {
  const ms = PERIODS.find(({ value }) => value === period)?.ms ?? 0;
  return new Date(Date.now() - ms).toISOString();
}

function actorOf({ actor_email, actor, key_prefix }: models.AuditEntry): string {
  return actor_email ?? (key_prefix ? `key ${key_prefix}…` : (actor ?? "nobody"));
}

function toneOf(status: number): Tone {
  if (status >= 500) return "danger";
  return status >= 400 ? "warn" : "ok";
}

function matches(row: models.AuditEntry, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const text =
    `${row.method} ${row.path} ${row.status} ${row.request_id} ${actorOf(row)}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
