import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import { patchSandbox } from "@/data/cache";
import { sandboxHandle } from "@/data/client";
import { duration, megabytes, millis } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { lifecycleQuery } from "@/data/sandbox";
import {
  Badge,
  Button,
  Card,
  CopyId,
  CopyText,
  ErrorNote,
  Field,
  Input,
  Note,
  RelativeTime,
  Select,
  Skeleton,
  Switch,
  toast,
} from "@/ui";
import { labelsOf } from "../sandboxes/filter";

const LIMITS: readonly [number, string][] = [
  [300, "5 minutes"],
  [900, "15 minutes"],
  [3600, "1 hour"],
  [28_800, "8 hours"],
  [86_400, "1 day"],
  [604_800, "1 week"],
  [0, "No limit"],
];
const OTHER = -1;
const TTL_SECONDS_MAX = 31_536_000;

/** What the sandbox is, and when it sleeps or ends. */
export default function LifecyclePart(props: { sandbox: SandboxInfo; onDelete: () => void }) {
  const { sandbox, onDelete } = props;
  return (
    <div className="grid items-start gap-4 px-4 py-4 md:px-6 lg:grid-cols-2">
      <IdleLimit sandbox={sandbox} />
      <Facts sandbox={sandbox} />
      <Card
        title="Delete"
        description="Memory and disk are gone at once. Snapshots and volumes stay, copies of volumes do not."
      >
        <Button variant="danger" icon={<Trash2 size={14} />} onClick={onDelete}>
          Delete the sandbox…
        </Button>
      </Card>
    </div>
  );
}

type Change = { readonly ttl_seconds: number } | { readonly persistent: boolean };

/** Changes the limit at once, and back if the server refuses. Resolves to whether it was done. */
function useApply(id: string): (change: Change) => Promise<boolean> {
  const queries = useQueryClient();
  return async (change) => {
    const { queryKey } = lifecycleQuery(id);
    const before = queries.getQueryData(queryKey);
    if (before) queries.setQueryData(queryKey, { ...before, ...change });
    try {
      const handle = sandboxHandle(id);
      const now =
        "persistent" in change
          ? await handle.setPersistent(change.persistent)
          : await handle.setTtl(change.ttl_seconds);
      queries.setQueryData(queryKey, now);
      patchSandbox(queries, id, { ttl_seconds: now.ttl_seconds, persistent: now.persistent });
      return true;
    } catch (failure) {
      queries.setQueryData(queryKey, before);
      toast.error(failure);
      return false;
    }
  };
}

function IdleLimit({ sandbox }: { sandbox: SandboxInfo }) {
  const { data, error, refetch } = useQuery(lifecycleQuery(sandbox.id));
  const apply = useApply(sandbox.id);
  return (
    <Card
      title="Idle limit"
      description="Time without commands, files, code, terminals or requests to a port"
    >
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <Skeleton className="h-24" />}
      {data && (
        <div className="flex flex-col gap-4">
          <LimitFields
            seconds={data.ttl_seconds}
            onChange={(ttl_seconds) => apply({ ttl_seconds })}
          />
          <div className="flex items-center gap-3">
            <Switch
              label="Sleep at the idle limit"
              checked={data.persistent}
              onChange={(persistent) => void apply({ persistent })}
            />
            <span>
              Sleep at the idle limit
              <span className="block text-xs text-muted">
                {data.persistent
                  ? "It wakes at its next use"
                  : "Now it is deleted then, with all its data"}
              </span>
            </span>
          </div>
          <p className="text-xs text-muted">
            Unused for {duration(data.idle_seconds)}.
            {data.ttl_seconds > 0 && sandbox.status === "running" && (
              <>
                {" "}
                {data.persistent ? "Sleeps" : "Is deleted"} in about{" "}
                {duration(Math.max(0, data.ttl_seconds - data.idle_seconds))}.
              </>
            )}
          </p>
        </div>
      )}
    </Card>
  );
}

/** A usual limit from a list, or another one in seconds. */
function LimitFields(props: { seconds: number; onChange: (seconds: number) => Promise<boolean> }) {
  const { seconds, onChange } = props;
  const [other, setOther] = useState<string>();
  const known = knownLimit(seconds);
  const set = async (value: number): Promise<void> => {
    if (await onChange(value)) setOther(undefined);
  };
  return (
    <div className="flex flex-wrap items-end gap-3">
      <Field label="Idle limit">
        {(control) => (
          <Select
            {...control}
            value={other !== undefined ? OTHER : known}
            onChange={(event) => {
              const value = Number(event.target.value);
              if (value === OTHER) setOther(String(seconds || 600));
              else void set(value);
            }}
          >
            {LIMITS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
            <option value={OTHER}>{known === OTHER ? duration(seconds) : "Another…"}</option>
          </Select>
        )}
      </Field>
      {other !== undefined && (
        <OtherLimit text={other} onText={setOther} onSet={(value) => void set(value)} />
      )}
    </div>
  );
}

function OtherLimit(props: {
  text: string;
  onText: (text: string) => void;
  onSet: (seconds: number) => void;
}) {
  const { text, onText, onSet } = props;
  const seconds = Number(text);
  const isGood = Number.isInteger(seconds) && seconds >= 1 && seconds <= TTL_SECONDS_MAX;
  return (
    <form
      className="flex items-end gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (isGood) onSet(seconds);
      }}
    >
      <Field label="Seconds" error={isGood ? undefined : "1 to 31,536,000"}>
        {(control) => (
          <Input
            {...control}
            inputMode="numeric"
            value={text}
            className="w-28!"
            onChange={(event) => onText(event.target.value)}
          />
        )}
      </Field>
      <Button type="submit" disabled={!isGood}>
        Set
      </Button>
    </form>
  );
}

function knownLimit(seconds: number): number {
  return LIMITS.some(([value]) => value === seconds) ? seconds : OTHER;
}

function Facts({ sandbox }: { sandbox: SandboxInfo }) {
  const rows: [string, ReactNode][] = [
    ["Id", <CopyId key="id" id={sandbox.id} full />],
    [
      "Template",
      <Link key="template" to="/templates" className="text-accent hover:underline">
        {sandbox.template}
      </Link>,
    ],
    ["Size", `${sandbox.cpu} CPU, ${megabytes(sandbox.memory_mb)} of memory`],
    ["Created", <RelativeTime key="created" at={sandbox.created_at} />],
    [
      "Start",
      sandbox.boot_ms === undefined
        ? "–"
        : `${millis(sandbox.boot_ms)} (${sandbox.boot_mode ?? "unknown"})`,
    ],
    ["Isolation", sandbox.isolation ?? "–"],
  ];
  if (sandbox.guest_ip) rows.push(["Address", <CopyText key="ip" text={sandbox.guest_ip} />]);
  if (sandbox.from_snapshot)
    rows.push(["From snapshot", <CopyId key="snapshot" id={sandbox.from_snapshot} />]);
  for (const volume of sandbox.volumes ?? []) rows.push(["Volume", `${volume.name}`]);
  const labels = labelsOf(sandbox);
  return (
    <Card title="Details">
      <dl className="grid grid-cols-[7rem_minmax(0,1fr)] gap-x-3 gap-y-1.5">
        {rows.map(([name, value], at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: names may repeat, rows do not move
          <div key={at} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
        {labels.length > 0 && (
          <div className="contents">
            <dt className="text-muted">Labels</dt>
            <dd className="flex flex-wrap gap-1">
              {labels.map(([key, value]) => (
                <Badge key={key} className="max-w-full break-all whitespace-normal">
                  {key}={value}
                </Badge>
              ))}
            </dd>
          </div>
        )}
      </dl>
      {sandbox.isolation_warning && (
        <div className="mt-3">
          <Note tone="warn">{sandbox.isolation_warning}</Note>
        </div>
      )}
    </Card>
  );
}
