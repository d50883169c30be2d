import { CircleCheck, CircleX, ShieldCheck } from "lucide-react";
import type { Drill } from "@/data/databaseBackups";
import { bytes, count, duration, exactTime } from "@/data/format";
import { Button, Card, RelativeTime, Spinner, useTimeText } from "@/ui";

/** The last restore drill, live while it runs. */
export function DrillCard(props: {
  drill: Drill | undefined;
  /** Starts one. Undefined while one runs, or if there is nothing to restore. */
  onVerify: (() => void) | undefined;
}) {
  const { drill, onVerify } = props;
  return (
    <Card
      title="Restore drill"
      description="Restores a backup in a scratch machine, and checks its tables and indexes"
      actions={
        <Button
          size="sm"
          icon={<ShieldCheck size={14} />}
          disabled={onVerify === undefined}
          onClick={() => onVerify?.()}
        >
          Verify
        </Button>
      }
    >
      <div role="status">
        {drill === undefined ? (
          <p className="text-muted">No backup of this database was tried yet.</p>
        ) : (
          <Result drill={drill} />
        )}
      </div>
    </Card>
  );
}

function Result({ drill }: { drill: Drill }) {
  const look = LOOKS[drill.status] ?? LOOKS["running"];
  return (
    <div className="flex gap-2" data-drill={drill.status}>
      <span className="mt-0.5 shrink-0">{look?.icon}</span>
      <div className="flex min-w-0 flex-1 flex-col gap-2">
        <p className="font-medium">
          {look?.text} <Took drill={drill} />
        </p>
        {drill.error && <p className="break-words">{drill.error}</p>}
        <Facts drill={drill} />
      </div>
    </div>
  );
}

const LOOKS: Record<string, { icon: React.ReactNode; text: string }> = {
  running: { icon: <Spinner />, text: "A restore is being tried" },
  passed: {
    icon: <CircleCheck size={16} className="text-ok" aria-hidden="true" />,
    text: "The backup can be restored",
  },
  failed: {
    icon: <CircleX size={16} className="text-danger" aria-hidden="true" />,
    text: "The backup could not be restored",
  },
};

/** How long it ran and when it ended, or for how long it has been running. */
function Took({ drill: { started_at: start, finished_at: end } }: { drill: Drill }) {
  const text = useTimeText((now) => {
    const seconds = ((end === undefined ? now : Date.parse(end)) - Date.parse(start)) / 1000;
    return duration(Math.max(0, seconds));
  });
  if (end === undefined) {
    // Read out once, not every second.
    return (
      <span aria-hidden="true" className="font-normal text-muted tabular-nums">
        for {text}
      </span>
    );
  }
  return (
    <span className="font-normal text-muted">
      <RelativeTime at={end} />, took {text}
    </span>
  );
}

function Facts({ drill }: { drill: Drill }) {
  const facts: [string, string | undefined][] = [
    ["Backup", drill.backup],
    ["As of", drill.target_time && exactTime(drill.target_time)],
    ["Data", drill.db_size_bytes === undefined ? undefined : bytes(drill.db_size_bytes)],
    [
      "Checked",
      drill.relations_checked === undefined
        ? undefined
        : `${count(drill.relations_checked)} tables and indexes`,
    ],
  ];
  const known = facts.filter(([, value]) => value);
  if (known.length === 0) return null;
  return (
    <dl className="grid grid-cols-[5rem_minmax(0,1fr)] gap-y-0.5">
      {known.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="break-words">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
