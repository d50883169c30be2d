import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { SERVER_URL } from "@/data/client";
import { count, megabytes, millis, usd } from "@/data/format";
import {
  billQuery,
  bootStatsQuery,
  plainSandboxesQuery,
  quotasQuery,
  seriesQuery,
  usageQuery,
} from "@/data/queries";
import { useMe } from "@/data/session";
import {
  buttonClass,
  Card,
  Chart,
  ErrorNote,
  Meter,
  Note,
  PageBody,
  PageHeader,
  Skeleton,
  Snippets,
  Stat,
  StateDot,
} from "@/ui";
import { seriesOf } from "../performance/series";
import { countByGroup } from "../sandboxes/filter";
import { createSnippets } from "../sandboxes/snippets";
import { RecentEvents } from "./RecentEvents";

const GROUPS: readonly [string, string, string][] = [
  ["running", "Running", "running"],
  ["paused", "Paused", "paused"],
  ["asleep", "Asleep", "hibernated"],
  ["failed", "Failed", "failed"],
];

/** The state of the workspace at a glance. */
export function Overview() {
  const me = useMe();
  const sandboxes = useQuery(plainSandboxesQuery);
  return (
    <>
      <PageHeader
        title="Overview"
        description={`Workspace ${me.workspace}`}
        actions={
          <Link to="/sandboxes" search={{ create: true }} className={buttonClass("primary")}>
            Create a sandbox
          </Link>
        }
      />
      <PageBody>
        {sandboxes.error && (
          <ErrorNote error={sandboxes.error} onRetry={() => void sandboxes.refetch()} />
        )}
        <States />
        <div className="grid gap-4 lg:grid-cols-3">
          <div className="flex min-w-0 flex-col gap-4 lg:col-span-2">
            {sandboxes.data?.length === 0 && <FirstSteps />}
            <Running />
            <UsageCard />
          </div>
          <div className="flex min-w-0 flex-col gap-4">
            <Limits />
            <RecentEvents />
          </div>
        </div>
      </PageBody>
    </>
  );
}

function States() {
  const { data } = useQuery(plainSandboxesQuery);
  const boots = useQuery(bootStatsQuery(50));
  const bill = useQuery(billQuery);
  const counts = useMemo(() => countByGroup(data ?? []), [data]);
  return (
    <div className="grid grid-cols-2 gap-3 sm:grid-cols-3 xl:grid-cols-6">
      {GROUPS.map(([group, label, state]) => (
        <Link
          key={group}
          to="/sandboxes"
          search={{ state: group }}
          className="rounded-lg border border-line bg-panel px-4 py-3 hover:bg-hover"
        >
          <span className="flex items-center gap-2 text-xs text-muted">
            <StateDot state={state} /> {label}
          </span>
          <span className="mt-0.5 block text-xl font-semibold tabular-nums" data-count={group}>
            {data ? count(counts[group] ?? 0) : <Skeleton className="my-1 h-5 w-8" />}
          </span>
        </Link>
      ))}
      <Stat
        label="Start time (p50)"
        value={boots.data && boots.data.overall.count > 0 ? millis(boots.data.overall.p50_ms) : "–"}
        hint={boots.data && `of the last ${count(boots.data.total_samples)}`}
      />
      <Stat
        label="Cost this month"
        value={bill.data ? usd(bill.data.mtd_cost_usd) : "–"}
        hint={bill.data && `${usd(bill.data.mtd_charged_usd)} charged`}
      />
    </div>
  );
}

function Running() {
  const { data } = useQuery(seriesQuery("1h"));
  const [times, values] = useMemo(() => seriesOf(data, ["sandboxes_running", "sandboxes"]), [data]);
  return (
    <Card title="Sandboxes in the last hour">
      <Chart
        label="Number of sandboxes and of running sandboxes in the last hour"
        times={times}
        values={values}
        series={[
          { label: "Running", colour: "--dot-ok", fill: true },
          { label: "All", colour: "--dot-off" },
        ]}
        format={(value) => String(Math.round(value * 10) / 10)}
      />
    </Card>
  );
}

function UsageCard() {
  const usage = useQuery(usageQuery("day"));
  const rows = usage.data?.rows ?? [];
  const times = useMemo(() => rows.map(({ key }) => Date.parse(`${key}T00:00:00Z`) / 1000), [rows]);
  const values = useMemo(() => [rows.map(({ cost_usd }) => cost_usd)], [rows]);
  return (
    <Card
      title="Usage this month"
      description="Cost by day, before credit"
      actions={
        <Link to="/usage" className={buttonClass("ghost", "sm")}>
          Details
        </Link>
      }
    >
      {rows.length === 0 ? (
        <p className="text-muted">Nothing was used yet.</p>
      ) : (
        <Chart
          label="Cost of each day of this month"
          times={times}
          values={values}
          series={[{ label: "Cost", colour: "--accent", kind: "bars" }]}
          format={usd}
          height={140}
        />
      )}
    </Card>
  );
}

function Limits() {
  const { data } = useQuery(quotasQuery);
  const bill = useQuery(billQuery);
  if (data === undefined) return <Card title="Limits">{<Skeleton className="h-24" />}</Card>;
  const { limits, usage } = data;
  const of = (used: string, limit: string | null): string =>
    limit === null ? used : `${used} of ${limit}`;
  return (
    <Card title="Limits" description={`Plan ${data.plan}`}>
      <div className="flex flex-col gap-3">
        {bill.data?.hold && <Note tone="warn">{bill.data.hold_reason ?? bill.data.hold}</Note>}
        <Meter
          label="Sandboxes"
          used={usage.sandboxes}
          limit={limits.max_sandboxes}
          text={of(
            count(usage.sandboxes),
            limits.max_sandboxes === null ? null : count(limits.max_sandboxes),
          )}
        />
        <Meter
          label="CPUs"
          used={usage.cpu}
          limit={limits.max_cpu_total}
          text={of(
            count(usage.cpu),
            limits.max_cpu_total === null ? null : count(limits.max_cpu_total),
          )}
        />
        <Meter
          label="Memory"
          used={usage.memory_mb}
          limit={limits.max_memory_mb_total}
          text={of(
            megabytes(usage.memory_mb),
            limits.max_memory_mb_total === null ? null : megabytes(limits.max_memory_mb_total),
          )}
        />
        <Meter
          label="Created in the last hour"
          used={usage.creates_last_hour}
          limit={limits.hourly_create_limit}
          text={of(
            count(usage.creates_last_hour),
            limits.hourly_create_limit === null ? null : count(limits.hourly_create_limit),
          )}
        />
      </div>
    </Card>
  );
}

function FirstSteps() {
  return (
    <Card
      title="Your first sandbox"
      description="From the command line or your code. It appears here at once."
    >
      <Snippets
        label="Create a sandbox"
        snippets={createSnippets({ template: "mini", name: "web" }, SERVER_URL)}
      />
    </Card>
  );
}
