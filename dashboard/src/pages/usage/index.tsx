import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { count, hours, usd } from "@/data/format";
import { billQuery, pricingQuery, type UsageBy, usageQuery } from "@/data/queries";
import { useRights } from "@/data/session";
import {
  Badge,
  Button,
  Card,
  Chart,
  type Column,
  CopyText,
  EmptyState,
  ErrorNote,
  Meter,
  Note,
  PageBody,
  PageHeader,
  Segmented,
  SkeletonRows,
  Stat,
  Table,
  toast,
} from "@/ui";
import { Budget } from "./Budget";
import { type Month, months, rangeOf } from "./months";
import { Plans } from "./Plans";
import { save } from "./save";

const SPLITS: readonly { value: UsageBy; label: string }[] = [
  { value: "day", label: "By day" },
  { value: "template", label: "By template" },
  { value: "sandbox", label: "By sandbox" },
  { value: "member", label: "By member" },
];

/** What the workspace used and costs. */
export function Usage() {
  const { org } = useRights();
  const bill = useQuery(billQuery);
  const pricing = useQuery(pricingQuery);
  return (
    <>
      <PageHeader
        title="Usage and billing"
        aside={bill.data && <Badge tone="accent">plan {bill.data.plan}</Badge>}
        description={
          bill.data && `${bill.data.period_start} to ${bill.data.period_end}, counted every minute`
        }
      />
      <PageBody>
        {bill.error && <ErrorNote error={bill.error} onRetry={() => void bill.refetch()} />}
        {bill.data?.hold && <Note tone="warn">{bill.data.hold_reason ?? bill.data.hold}</Note>}
        {bill.data ? <Totals bill={bill.data} /> : !bill.error && <SkeletonRows rows={2} />}
        <Report />
        <div className="grid gap-4 lg:grid-cols-2">
          {bill.data && <Budget bill={bill.data} />}
          {pricing.data && bill.data && <Plans pricing={pricing.data} bill={bill.data} org={org} />}
        </div>
      </PageBody>
    </>
  );
}

function Totals({ bill }: { bill: models.Bill }) {
  return (
    <>
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <Stat
          label="Cost this month"
          value={usd(bill.mtd_cost_usd)}
          hint={`${usd(bill.mtd_charged_usd)} are charged`}
        />
        <Stat
          label="CPU"
          value={usd(bill.mtd_vcpu_cost_usd)}
          hint={`${hours(bill.mtd_vcpu_seconds)} of a CPU`}
        />
        <Stat
          label="Memory"
          value={usd(bill.mtd_memory_cost_usd)}
          hint={`${hours(bill.mtd_memory_gib_seconds)} of a GiB`}
        />
        <Stat
          label="Storage above the plan"
          value={usd(bill.mtd_storage_cost_usd)}
          hint={`${hours(bill.mtd_storage_gib_seconds)} of a GiB in all`}
        />
      </div>
      {bill.credit_usd > 0 && (
        <Card>
          <Meter
            label="Credit of the plan"
            used={bill.credit_used_usd}
            limit={bill.credit_usd}
            text={`${usd(bill.credit_used_usd)} of ${usd(bill.credit_usd)}`}
          />
        </Card>
      )}
    </>
  );
}

function Report() {
  const [by, setBy] = useState<UsageBy>("day");
  const choices = useMemo(() => months(new Date()), []);
  const [month, setMonth] = useState<Month>(choices[0] as Month);
  const { from, to } = rangeOf(month);
  const { data, error, refetch } = useQuery(usageQuery(by, from, to));
  const columns = useMemo(() => columnsOf(by), [by]);
  const download = async (): Promise<void> => {
    try {
      save(`usage-${from}-by-${by}.csv`, await client.usage.export({ by, from, to }), "text/csv");
    } catch (failure) {
      toast.error(failure);
    }
  };
  return (
    <Card
      title="Usage"
      flush
      description="Before credit and included storage"
      actions={
        <div className="flex flex-wrap items-center gap-2">
          <Segmented
            label="Month"
            value={month}
            onChange={setMonth}
            choices={choices.map((value) => ({ value, label: value }))}
          />
          <Segmented label="Split" value={by} onChange={setBy} choices={SPLITS} />
          <Button size="sm" icon={<Download size={14} />} onClick={() => void download()}>
            CSV
          </Button>
        </div>
      }
    >
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows />}
      {data && by === "day" && data.rows.length > 0 && <DayChart rows={data.rows} />}
      {data && (
        <Table
          label={`Usage by ${by}`}
          rows={data.rows}
          rowId={({ key }) => key}
          columns={columns}
          rowHeight={34}
          empty={<EmptyState title="Nothing was used in this month" />}
        />
      )}
      {data && data.rows.length > 0 && (
        <p className="px-4 py-2 text-right text-sm">
          In all <strong className="tabular-nums">{usd(data.total.cost_usd)}</strong>
        </p>
      )}
    </Card>
  );
}

function DayChart({ rows }: { rows: readonly models.UsageRow[] }) {
  const times = useMemo(() => rows.map(({ key }) => Date.parse(`${key}T00:00:00Z`) / 1000), [rows]);
  const values = useMemo(() => [rows.map(({ cost_usd }) => cost_usd)], [rows]);
  return (
    <div className="px-4 pb-3">
      <Chart
        label="Cost of each day"
        times={times}
        values={values}
        series={[{ label: "Cost", colour: "--accent", kind: "bars" }]}
        format={usd}
        height={170}
      />
    </div>
  );
}

const HEADERS: Record<UsageBy, string> = {
  day: "Day",
  template: "Template",
  sandbox: "Sandbox or volume",
  member: "Member",
};

function columnsOf(by: UsageBy): Column<models.UsageRow>[] {
  const hoursColumn = (
    id: "vcpu_seconds" | "memory_gib_seconds" | "storage_gib_seconds",
    header: string,
    from: number,
  ): Column<models.UsageRow> => ({
    id,
    header,
    width: "minmax(90px, 0.7fr)",
    align: "end",
    from,
    sort: (row) => row[id],
    cell: (row) => hours(row[id]),
  });
  return [
    {
      id: "key",
      header: HEADERS[by],
      width: "minmax(110px, 1.5fr)",
      sort: (row) => row.key,
      cell: (row) =>
        by === "sandbox" || by === "member" ? (
          <span className="flex items-center gap-2">
            <CopyText text={row.key} label={row.label || row.key.slice(0, 12)} />
            {by === "sandbox" && <span className="text-xs text-faint">{row.key.slice(0, 8)}</span>}
          </span>
        ) : (
          row.key || count(0)
        ),
    },
    hoursColumn("vcpu_seconds", "CPU", 440),
    hoursColumn("memory_gib_seconds", "Memory GiB", 560),
    hoursColumn("storage_gib_seconds", "Storage GiB", 680),
    {
      id: "cost",
      header: "Cost",
      width: "96px",
      align: "end",
      sort: (row) => row.cost_usd,
      cell: (row) => usd(row.cost_usd),
    },
  ];
}
