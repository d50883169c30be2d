import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { bytes, count, duration, percent } from "@/data/format";
import type { SandboxInfo, SeriesRange } from "@/data/queries";
import { machineQuery, sandboxSeriesQuery } from "@/data/sandbox";
import { Card, Chart, EmptyState, ErrorNote, Segmented, Skeleton, Stat } from "@/ui";
import { pointsOf } from "./points";

const RANGES: readonly { value: SeriesRange; label: string }[] = [
  { value: "15m", label: "15 min" },
  { value: "1h", label: "1 h" },
  { value: "6h", label: "6 h" },
  { value: "24h", label: "1 d" },
  { value: "7d", label: "7 d" },
];

interface Metric {
  readonly name: string;
  readonly title: string;
  readonly colour: string;
  readonly format: (value: number) => string;
}

const METRICS: readonly Metric[] = [
  {
    name: "cpu_pct",
    title: "CPU",
    colour: "--dot-info",
    format: percent,
  },
  { name: "mem_bytes", title: "Memory", colour: "--dot-ok", format: bytes },
  { name: "threads", title: "Threads", colour: "--dot-sleep", format: (value) => count(value) },
];

/** What the machine uses, now and over time. Looking does not wake it. */
export default function MetricsPart({ sandbox }: { sandbox: SandboxInfo }) {
  const [range, setRange] = useState<SeriesRange>("1h");
  const { data, error, refetch } = useQuery(sandboxSeriesQuery(sandbox.id, range));
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      <div className="flex items-center justify-between gap-2">
        <p className="text-muted">Measured on the host, at the process of the machine.</p>
        <Segmented label="Range" value={range} onChange={setRange} choices={RANGES} />
      </div>
      <Now sandbox={sandbox} />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <Skeleton className="h-40" />}
      {data && (
        <div className="grid gap-4 lg:grid-cols-2">
          {METRICS.map((metric) => (
            <MetricCard key={metric.name} metric={metric} data={data} />
          ))}
        </div>
      )}
    </div>
  );
}

function MetricCard({ metric, data }: { metric: Metric; data: models.MetricSeries }) {
  const { times, values } = pointsOf(data.series[metric.name]);
  return (
    <Card title={metric.title}>
      {times.length === 0 ? (
        <EmptyState title="No values in this range" />
      ) : (
        <Chart
          label={`${metric.title} over time`}
          times={times}
          values={[values]}
          series={[{ label: metric.title, colour: metric.colour, fill: true }]}
          format={metric.format}
          isBytes={metric.format === bytes}
          height={200}
        />
      )}
    </Card>
  );
}

function Now({ sandbox }: { sandbox: SandboxInfo }) {
  const isRunning = sandbox.status === "running" || sandbox.status === "paused";
  const { data } = useQuery({ ...machineQuery(sandbox.id), enabled: isRunning });
  const now = isRunning ? data : undefined;
  return (
    <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
      <Stat
        label="CPU"
        value={now ? percent(now.host_cpu_percent) : "–"}
        hint={`of ${sandbox.cpu * 100} %`}
      />
      <Stat
        label="Memory"
        value={now ? bytes(now.host_rss_bytes) : "–"}
        hint={`of ${bytes(sandbox.memory_mb * 1024 * 1024)}`}
      />
      <Stat label="Threads" value={now ? count(now.threads) : "–"} />
      <Stat label="Up since its last start" value={now ? duration(now.uptime_seconds) : "–"} />
    </div>
  );
}
