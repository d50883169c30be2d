import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CopyPlus, ShieldCheck } from "lucide-react";
import { useState } from "react";
import { cloneDatabase } from "@/data/databaseBackups";
import {
  DATABASE_SIZES,
  type DatabaseInfo,
  type DatabaseSize,
  databaseName,
  putDatabase,
} from "@/data/databases";
import { exactTime } from "@/data/format";
import { keys } from "@/data/queries";
import {
  Button,
  Card,
  CodeBlock,
  CopyText,
  ErrorNote,
  Field,
  Input,
  toast,
  useTimeText,
} from "@/ui";
import { SizeField } from "../../databases/SizeField";
import { shell } from "../../sandboxes/snippets";
import { useSubmit } from "../../signin/useSubmit";
import { TimeSlider } from "./TimeSlider";
import {
  agoText,
  clampTo,
  isWithin,
  localText,
  ofLocalText,
  quickTimes,
  rfc3339,
  type Span,
} from "./times";

const STEPS: readonly { label: string; name: string; seconds: number }[] = [
  { label: "−1 h", name: "An hour earlier", seconds: -3600 },
  { label: "−1 min", name: "A minute earlier", seconds: -60 },
  { label: "+1 min", name: "A minute later", seconds: 60 },
  { label: "+1 h", name: "An hour later", seconds: 3600 },
];

export interface RestoreProps {
  readonly database: DatabaseInfo;
  readonly span: Span;
  readonly marks: readonly number[];
  /** The chosen time; undefined for the latest, which moves on. */
  readonly chosen: number | undefined;
  readonly onChoose: (at: number | undefined) => void;
  /** Tries the restore in a scratch machine. Undefined while one is tried. */
  readonly onVerify: ((at: number | undefined) => void) | undefined;
}

/** Chooses a time in the window, and clones the database as it was then. */
export function Restore(props: RestoreProps) {
  const { database, span, marks, chosen, onChoose, onVerify } = props;
  const at = chosen ?? span.latest;
  const isInside = isWithin(at, span);
  const choose = (next: number): void => onChoose(next >= span.latest ? undefined : next);
  return (
    <Card
      title="Restore to a time"
      description="A clone is a new database with its own credentials. This one is not touched, and may be asleep or failed"
    >
      <div className="flex flex-col gap-4">
        <Chosen at={at} kind={chosen === undefined ? "latest" : "chosen"} />
        <TimeSlider span={span} at={at} marks={marks} onChange={choose} />
        <div className="flex flex-wrap items-end gap-x-4 gap-y-3">
          <TimeField at={at} span={span} onChoose={onChoose} />
          <div role="group" aria-label="Move the time" className="flex flex-wrap gap-1">
            {STEPS.map(({ label, name, seconds }) => (
              <Button
                key={name}
                size="sm"
                aria-label={`${name}, ${label}`}
                onClick={() => choose(clampTo(at + seconds, span))}
              >
                {label}
              </Button>
            ))}
          </div>
          <Quick span={span} chosen={chosen} onChoose={onChoose} />
        </div>
        <CloneForm
          database={database}
          target={chosen === undefined ? undefined : rfc3339(chosen)}
          isInside={isInside}
        />
        <div className="flex flex-wrap items-center gap-2 border-t border-line pt-3">
          <p className="min-w-0 flex-1 basis-52 text-muted">
            Not sure that it works? Try it in a scratch machine, without a clone.
          </p>
          <Button
            icon={<ShieldCheck size={14} />}
            disabled={!isInside || onVerify === undefined}
            onClick={() => onVerify?.(chosen)}
          >
            Verify this time
          </Button>
        </div>
      </div>
    </Card>
  );
}

/** The chosen time in words. */
function Chosen({ at, kind }: { at: number; kind: "latest" | "chosen" }) {
  const ago = useTimeText((now) => agoText(at, now));
  const text = rfc3339(at);
  return (
    <div className="flex flex-wrap items-baseline gap-x-3 gap-y-0.5">
      <output className="text-xl font-semibold tabular-nums" data-chosen={text}>
        {ago}
      </output>
      <span className="text-muted">
        {exactTime(text)}
        {kind === "latest" && ", the latest that is archived"}
      </span>
      <CopyText text={text} />
    </div>
  );
}

function TimeField(props: { at: number; span: Span; onChoose: (at: number) => void }) {
  const { at, span, onChoose } = props;
  // What is being typed may be incomplete, and must not be replaced by what was chosen before.
  const [draft, setDraft] = useState<string>();
  const error = isWithin(at, span) ? undefined : "This time cannot be restored";
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <Field label={`Date and time, ${zone}`} error={error}>
      {(control) => (
        <Input
          {...control}
          type="datetime-local"
          step={1}
          min={localText(span.earliest)}
          max={localText(span.latest)}
          value={draft ?? localText(at)}
          onChange={({ target: { value } }) => {
            setDraft(value);
            const typed = ofLocalText(value);
            if (typed !== undefined) onChoose(typed);
          }}
          onBlur={() => setDraft(undefined)}
          className="w-56"
        />
      )}
    </Field>
  );
}

function Quick(props: {
  span: Span;
  chosen: number | undefined;
  onChoose: (at: number | undefined) => void;
}) {
  const { span, chosen, onChoose } = props;
  return (
    <div role="group" aria-label="Often chosen times" className="flex flex-wrap gap-1">
      {quickTimes(span, Date.now()).map(({ label, at }) => (
        <Button key={label} size="sm" onClick={() => onChoose(at)}>
          {label}
        </Button>
      ))}
      <Button size="sm" aria-pressed={chosen === undefined} onClick={() => onChoose(undefined)}>
        Latest
      </Button>
    </div>
  );
}

function CloneForm(props: {
  database: DatabaseInfo;
  target: string | undefined;
  isInside: boolean;
}) {
  const { database, target, isInside } = props;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [typed, setLabel] = useState("");
  const label = typed.trim();
  const own = DATABASE_SIZES.find((one) => one === database.size) ?? "1g";
  const [size, setSize] = useState<DatabaseSize>(own);
  const { busy, error, submit } = useSubmit(async () => {
    const made = await cloneDatabase(database.id, {
      ...(label === "" ? {} : { label }),
      ...(target === undefined ? {} : { target_time: target }),
      ...(size === own ? {} : { size }),
    });
    putDatabase(queries, made);
    void queries.invalidateQueries({ queryKey: keys.quotas });
    toast.success(`${databaseName(made)} is being made from the archive`);
    await navigate({ to: "/databases/$id", params: { id: made.id } });
  });
  return (
    <form className="flex flex-col gap-3" onSubmit={submit}>
      <div className="flex flex-wrap items-end gap-3">
        <Field label="Label" optional className="min-w-0 flex-1 basis-48 sm:max-w-72">
          {(control) => (
            <Input
              {...control}
              maxLength={200}
              autoComplete="off"
              spellCheck={false}
              placeholder="before the mistake"
              value={typed}
              onChange={(event) => setLabel(event.target.value)}
            />
          )}
        </Field>
        <SizeField size={size} onChange={setSize} className="min-w-0 sm:max-w-52" />
        <Button
          type="submit"
          variant="primary"
          icon={<CopyPlus size={14} />}
          loading={busy}
          disabled={!isInside}
        >
          Clone to this time
        </Button>
      </div>
      {error !== undefined && <ErrorNote error={error} title="The clone was not made" />}
      <div className="flex flex-col gap-1">
        <span className="text-xs text-muted">The same as a command:</span>
        <CodeBlock
          code={[
            `pandastack db clone ${database.id}`,
            ...(target === undefined ? [] : [`--at ${target}`]),
            ...(label === "" ? [] : [`--label ${shell(label)}`]),
            ...(size === own ? [] : [`--size ${size}`]),
          ].join(" ")}
        />
      </div>
    </form>
  );
}
