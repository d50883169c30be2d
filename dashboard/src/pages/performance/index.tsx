import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Gauge } from "lucide-react";
import { useMemo, useState } from "react";
import { bytes, count, millis, percent, shortId } from "@/data/format";
import { bootStatsQuery, type SeriesRange, seriesQuery } from "@/data/queries";
import {
  Badge,
  Card,
  Chart,
  type ChartSeries,
  type Column,
  EmptyState,
  ErrorNote,
  PageBody,
  PageHeader,
  RelativeTime,
  Segmented,
  SkeletonRows,
  Stat,
  Table,
} from "@/ui";
import { seriesOf } from "./series";

const RANGES: readonly { value: SeriesRange; label: string }[] = [
  { value: "15m", label: "15 min" },
  { value: "1h", label: "1 h" },
  { value: "6h", label: "6 h" },
  { value: "24h", label: "24 h" },
  { value: "7d", label: "7 d" },
];

const MODES: Record<string, string> = {
  "snapshot-natid": "from a template",
  snapshot: "from a snapshot",
  fork: "fork",
  wake: "wake",
  cold: "cold",
};

interface BucketRow extends models.BootBucket {
  key: string;
}

const BUCKETS: readonly Column<BucketRow>[] = [
  {
    id: "key",
    header: "Kind",
    width: "minmax(110px, 1.5fr)",
    sort: (row) => row.key,
    cell: (row) => <span title={row.key}>{MODES[row.key] ?? row.key}</span>,
  },
  ...(["p50_ms", "p90_ms", "p99_ms", "max_ms"] as const).map(
    (field): Column<BucketRow> => ({
      id: field,
      header: field.slice(0, -3),
      width: "minmax(68px, 0.7fr)",
      align: "end",
      ...(field === "max_ms" ? { from: 420 } : {}),
      sort: (row) => row[field],
      cell: (row) => millis(row[field]),
    }),
  ),
  {
    id: "count",
    header: "Starts",
    width: "minmax(60px, 0.6fr)",
    align: "end",
    from: 340,
    sort: (row) => row.count,
    cell: (row) => count(row.count),
  },
];

const SAMPLES: readonly Column<models.BootSample>[] = [
  {
    id: "sandbox",
    header: "Sandbox",
    width: "minmax(90px, 1fr)",
    cell: (row) => (
      <Link
        to="/sandboxes/$id"
        params={{ id: row.sandbox_id }}
        className="font-mono text-xs hover:underline"
      >
        {shortId(row.sandbox_id)}
      </Link>
    ),
  },
  {
    id: "template",
    header: "Template",
    width: "minmax(90px, 1fr)",
    from: 420,
    cell: (row) => row.template,
  },
  {
    id: "mode",
    header: "Kind",
    width: "minmax(90px, 1fr)",
    cell: (row) => <Badge>{MODES[row.boot_mode] ?? row.boot_mode}</Badge>,
  },
  {
    id: "ms",
    header: "Time",
    width: "80px",
    align: "end",
    sort: (row) => row.boot_ms,
    cell: (row) => millis(row.boot_ms),
  },
  {
    id: "at",
    header: "When",
    width: "96px",
    align: "end",
    cell: (row) => <RelativeTime at={row.ts} />,
  },
];

/** How fast sandboxes start and requests are answered. */
export function Performance() {
  const [range, setRange] = useState<SeriesRange>("1h");
  const boots = useQuery(bootStatsQuery(60));
  const series = useQuery(seriesQuery(range));
  return (
    <>
      <PageHeader
        title="Performance"
        description="How long sandboxes take to start, and requests to be answered."
        actions={<Segmented label="Period" value={range} onChange={setRange} choices={RANGES} />}
      />
      <PageBody>
        {boots.error && <ErrorNote error={boots.error} onRetry={() => void boots.refetch()} />}
        {boots.data && <Percentiles overall={boots.data.overall} />}
        <div className="grid gap-4 lg:grid-cols-2">
          {CHARTS.map((chart) => (
            <SeriesChart key={chart.title} chart={chart} data={series.data} />
          ))}
        </div>
        {boots.data === undefined && !boots.error && <SkeletonRows />}
        {boots.data && boots.data.overall.count === 0 && (
          <EmptyState
            icon={<Gauge size={32} strokeWidth={1.25} />}
            title="No start was measured yet"
          >
            <p>Measure the server from your computer: pandastack bench -n 20 -t mini</p>
          </EmptyState>
        )}
        {boots.data && boots.data.overall.count > 0 && <Tables stats={boots.data} />}
      </PageBody>
    </>
  );
}

function Percentiles({ overall }: { overall: models.BootBucket }) {
  const none = overall.count === 0;
  return (
    <div className="grid grid-cols-2 gap-3 sm:grid-cols-4">
      <Stat label="Half start within (p50)" value={none ? "–" : millis(overall.p50_ms)} />
      <Stat label="9 of 10 within (p90)" value={none ? "–" : millis(overall.p90_ms)} />
      <Stat label="99 of 100 within (p99)" value={none ? "–" : millis(overall.p99_ms)} />
      <Stat label="Measured starts" value={count(overall.count)} />
    </div>
  );
}

function Tables({ stats }: { stats: models.BootStats }) {
  const byMode = useMemo(() => rowsOf(stats.by_mode), [stats]);
  const byTemplate = useMemo(() => rowsOf(stats.by_template), [stats]);
  return (
    <>
      <div className="grid gap-4 lg:grid-cols-2">
        <Card title="By kind of start" flush>
          <Table label="Start times by kind" rows={byMode} rowId={keyOf} columns={BUCKETS} />
        </Card>
        <Card title="By template" flush>
          <Table
            label="Start times by template"
            rows={byTemplate}
            rowId={keyOf}
            columns={BUCKETS}
          />
        </Card>
      </div>
      <Card title="Last starts" flush>
        <Table
          label="Last starts"
          rows={stats.recent}
          rowId={(row) => `${row.sandbox_id} ${row.ts}`}
          columns={SAMPLES}
        />
      </Card>
    </>
  );
}

interface ChartInfo {
  readonly title: string;
  readonly names: readonly string[];
  readonly series: ChartSeries[];
  readonly format: (value: number) => string;
}

const CHARTS: readonly ChartInfo[] = [
  {
    title: "Start time",
    names: ["boot_p50", "boot_p95"],
    series: [
      { label: "p50", colour: "--dot-ok" },
      { label: "p95", colour: "--dot-warn" },
    ],
    format: millis,
  },
  {
    title: "Created sandboxes",
    names: ["sb_creates"],
    series: [{ label: "Created", colour: "--accent", kind: "bars" }],
    format: (value) => String(Math.round(value)),
  },
  {
    title: "Answer time",
    names: ["http_p50", "http_p95"],
    series: [
      { label: "p50", colour: "--dot-ok" },
      { label: "p95", colour: "--dot-warn" },
    ],
    format: millis,
  },
  {
    title: "Requests",
    names: ["http_rps", "http_errors"],
    series: [
      { label: "Requests", colour: "--dot-info", fill: true },
      { label: "Failed", colour: "--dot-danger" },
    ],
    format: (value) => String(Math.round(value)),
  },
  {
    title: "CPU of all sandboxes",
    names: ["cpu_percent"],
    series: [{ label: "CPU", colour: "--dot-info", fill: true }],
    format: percent,
  },
  {
    title: "Memory of all sandboxes",
    names: ["rss_bytes"],
    series: [{ label: "Memory", colour: "--dot-sleep", fill: true }],
    format: bytes,
  },
];

function SeriesChart({ chart, data }: { chart: ChartInfo; data: models.MetricSeries | undefined }) {
  const [times, values] = useMemo(() => seriesOf(data, chart.names), [data, chart]);
  return (
    <Card title={chart.title}>
      <Chart
        label={`${chart.title} over time`}
        times={times}
        values={values}
        series={chart.series}
        format={chart.format}
        isBytes={chart.format === bytes}
      />
    </Card>
  );
}

function rowsOf(buckets: Record<string, models.BootBucket>): BucketRow[] {
  return Object.entries(buckets).map(([key, bucket]) => ({ key, ...bucket }));
}

function keyOf({ key }: BucketRow): string {
  return key;
}
