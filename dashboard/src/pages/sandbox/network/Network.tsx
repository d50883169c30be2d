import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Save } from "lucide-react";
import { useState } from "react";
import { sandboxHandle } from "@/data/client";
import { plural } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { egressQuery } from "@/data/sandbox";
import {
  Button,
  Card,
  EmptyState,
  ErrorNote,
  Field,
  Note,
  RelativeTime,
  Skeleton,
  TextArea,
  toast,
} from "@/ui";
import { useSandboxEvents } from "../events/Events";
import { deniedTargets } from "../events/list";
import { parseRules, ruleFor } from "./rules";

/** Which destinations the sandbox may reach. A change counts at once, for new connections. */
export default function NetworkPart({ sandbox }: { sandbox: SandboxInfo }) {
  const { data, error, refetch } = useQuery(egressQuery(sandbox.id));
  const [draft, setDraft] = useState<{ limited: boolean; text: string }>();
  const saved =
    data === undefined ? undefined : { limited: data !== null, text: (data ?? []).join("\n") };
  const now = draft ?? saved;
  const allow = (rule: string): void => {
    const lines = now?.text.split("\n").filter(Boolean) ?? [];
    setDraft({ limited: true, text: [...new Set([...lines, rule])].join("\n") });
  };
  return (
    <div className="grid items-start gap-4 px-4 py-4 md:px-6 lg:grid-cols-2">
      <Card title="Destinations" description="What programs in the sandbox may connect to">
        {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
        {now === undefined && !error && <Skeleton className="h-32" />}
        {now && (
          <Rules
            sandboxId={sandbox.id}
            now={now}
            isDirty={draft !== undefined}
            onChange={setDraft}
          />
        )}
        {sandbox.egress_mbps !== undefined && (
          <p className="mt-3 text-xs text-muted">
            At most {sandbox.egress_mbps} Mbit/s out of the sandbox.
          </p>
        )}
      </Card>
      <Denied sandboxId={sandbox.id} onAllow={allow} />
    </div>
  );
}

function Rules(props: {
  sandboxId: string;
  now: { limited: boolean; text: string };
  isDirty: boolean;
  onChange: (draft: { limited: boolean; text: string } | undefined) => void;
}) {
  const { sandboxId, now, isDirty, onChange } = props;
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const parsed = parseRules(now.text);
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      const list = await sandboxHandle(sandboxId).setEgress(now.limited ? parsed.rules : null);
      queries.setQueryData(egressQuery(sandboxId).queryKey, list);
      onChange(undefined);
      toast.success(
        list === null ? "Every destination is allowed" : `${plural(list.length, "rule")} saved`,
      );
    } catch (failure) {
      toast.error(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="flex flex-col gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <Choice limited={now.limited} onChange={(limited) => onChange({ ...now, limited })} />
      {now.limited && (
        <RulesField
          text={now.text}
          error={parsed.error}
          onChange={(text) => onChange({ ...now, text })}
        />
      )}
      {now.limited && parsed.rules.length === 0 && (
        <Note tone="warn">No rule: the sandbox reaches nothing.</Note>
      )}
      <div className="flex gap-2">
        <Button
          type="submit"
          variant="primary"
          icon={<Save size={14} />}
          loading={busy}
          disabled={!isDirty || (now.limited && parsed.error !== undefined)}
        >
          Save
        </Button>
        <Button disabled={!isDirty} onClick={() => onChange(undefined)}>
          Undo
        </Button>
      </div>
    </form>
  );
}

function RulesField(props: {
  text: string;
  error: string | undefined;
  onChange: (text: string) => void;
}) {
  return (
    <Field
      label="Allowed destinations"
      hint="Host names, *.suffix or IPv4 networks, one per line"
      error={props.error}
    >
      {(control) => (
        <TextArea
          {...control}
          rows={8}
          spellCheck={false}
          value={props.text}
          placeholder={"pypi.org\n*.pythonhosted.org\n10.0.0.0/8"}
          className="font-mono text-xs"
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function Choice(props: { limited: boolean; onChange: (limited: boolean) => void }) {
  const { limited, onChange } = props;
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="sr-only">Destinations</legend>
      <label className="flex items-center gap-2">
        <input
          type="radio"
          name="egress"
          className="accent-accent"
          checked={!limited}
          onChange={() => onChange(false)}
        />
        Everything that the host allows
      </label>
      <label className="flex items-center gap-2">
        <input
          type="radio"
          name="egress"
          className="accent-accent"
          checked={limited}
          onChange={() => onChange(true)}
        />
        Only these destinations
      </label>
    </fieldset>
  );
}

/** Destinations that were refused: often what a program needs. */
function Denied({ sandboxId, onAllow }: { sandboxId: string; onAllow: (rule: string) => void }) {
  const { list } = useSandboxEvents(sandboxId);
  const denied = deniedTargets(list ?? []).slice(0, 50);
  return (
    <Card title="Refused lately" description="As they happen">
      {denied.length === 0 ? (
        <EmptyState title="Nothing was refused" />
      ) : (
        <ul className="flex flex-col">
          {denied.map(({ target, ts, times }) => (
            <li key={target} className="flex items-center gap-2 border-b border-line py-1.5">
              <span className="min-w-0 flex-1 truncate font-mono text-xs" title={target}>
                {target}
              </span>
              {times > 1 && <span className="text-xs text-muted">{times} times</span>}
              <span className="text-xs text-muted">
                <RelativeTime at={ts} />
              </span>
              <Button size="sm" icon={<Plus size={14} />} onClick={() => onAllow(ruleFor(target))}>
                Allow
              </Button>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
