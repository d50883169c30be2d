import { useQuery } from "@tanstack/react-query";
import { megabytes } from "@/data/format";
import { snapshotsQuery, templatesQuery, volumesQuery } from "@/data/queries";
import { Checkbox, Field, Input, Select, Switch, TextArea } from "@/ui";

/** What the form of a new sandbox holds. */
export interface Form {
  template: string;
  fromSnapshot: string;
  name: string;
  ttl: string;
  persistent: boolean;
  metadata: string;
  env: string;
  limitEgress: boolean;
  egress: string;
  volumes: string[];
}

export const EMPTY: Form = {
  template: "",
  fromSnapshot: "",
  name: "",
  ttl: "",
  persistent: false,
  metadata: "",
  env: "",
  limitEgress: false,
  egress: "",
  volumes: [],
};

const TTLS: readonly [string, string][] = [
  ["", "As the server says"],
  ["300", "5 minutes"],
  ["3600", "1 hour"],
  ["28800", "8 hours"],
  ["86400", "1 day"],
  ["0", "No limit"],
];

type SetForm = (fields: Partial<Form>) => void;

/** What it starts from. */
export function Start(props: { form: Form; template: string; set: SetForm }) {
  const { form, template, set } = props;
  const templates = useQuery(templatesQuery);
  const snapshots = useQuery(snapshotsQuery);
  const chosen = templates.data?.find(({ name }) => name === template);
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <Field
        label="Template"
        hint={chosen ? `${chosen.cpu} CPU, ${megabytes(chosen.memory_mb)} of memory` : undefined}
        error={
          templates.data?.length === 0
            ? "The server has no template: run `pandastack template bake mini`"
            : undefined
        }
      >
        {(control) => (
          <Select
            {...control}
            value={template}
            disabled={form.fromSnapshot !== ""}
            onChange={(event) => set({ template: event.target.value })}
          >
            {templates.data?.map(({ name, status }) => (
              <option key={name} value={name} disabled={status !== undefined}>
                {status === undefined ? name : `${name} (${status})`}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label="Or from a snapshot" optional hint="Memory and disk as they were">
        {(control) => (
          <Select
            {...control}
            value={form.fromSnapshot}
            onChange={(event) => set({ fromSnapshot: event.target.value })}
          >
            <option value="">None</option>
            {snapshots.data?.map(({ id, template: from }) => (
              <option key={id} value={id}>
                {id.slice(0, 12)} · {from}
              </option>
            ))}
          </Select>
        )}
      </Field>
    </div>
  );
}

/** Its name, and when it ends. */
export function NameAndLimit({ form, set }: { form: Form; set: SetForm }) {
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Name" optional hint="A label that the command line and the list use">
          {(control) => (
            <Input
              {...control}
              value={form.name}
              maxLength={64}
              autoComplete="off"
              onChange={(event) => set({ name: event.target.value })}
            />
          )}
        </Field>
        <Field label="Idle limit" hint="After this long without use">
          {(control) => (
            <Select
              {...control}
              value={form.ttl}
              onChange={(event) => set({ ttl: event.target.value })}
            >
              {TTLS.map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      <div className="flex items-center gap-3">
        <Switch
          label="Sleep at the idle limit"
          checked={form.persistent}
          onChange={(persistent) => set({ persistent })}
        />
        <span>
          Sleep at the idle limit
          <span className="block text-xs text-muted">
            Otherwise it is deleted with all its data
          </span>
        </span>
      </div>
    </>
  );
}

/** What few people need. */
export function More(props: {
  form: Form;
  set: SetForm;
  errors: { metadata: string | undefined; env: string | undefined };
}) {
  const { form, set, errors } = props;
  return (
    <div className="flex flex-col gap-4 px-3 pb-3">
      <div className="grid gap-4 sm:grid-cols-2">
        <PairsField
          label="Labels"
          placeholder="task=t-1"
          error={errors.metadata}
          value={form.metadata}
          onChange={(metadata) => set({ metadata })}
        />
        <PairsField
          label="Environment variables"
          placeholder="PORT=3000"
          error={errors.env}
          value={form.env}
          onChange={(env) => set({ env })}
        />
      </div>
      <div className="flex items-center gap-3">
        <Switch
          label="Allow only some destinations"
          checked={form.limitEgress}
          onChange={(limitEgress) => set({ limitEgress })}
        />
        Allow only some destinations
      </div>
      {form.limitEgress && (
        <Field
          label="Destinations"
          hint="Host names, *.suffix or IPv4 networks, one per line. None: no network"
        >
          {(control) => (
            <TextArea
              {...control}
              rows={3}
              className="font-mono text-xs"
              value={form.egress}
              placeholder={"pypi.org\n*.pythonhosted.org"}
              onChange={(event) => set({ egress: event.target.value })}
            />
          )}
        </Field>
      )}
      <VolumeChoice chosen={form.volumes} onChange={(volumes) => set({ volumes })} />
    </div>
  );
}

/** Lines of KEY=VALUE. */
function PairsField(props: {
  label: string;
  placeholder: string;
  error: string | undefined;
  value: string;
  onChange: (value: string) => void;
}) {
  const { label, placeholder, error, value, onChange } = props;
  return (
    <Field label={label} hint="KEY=VALUE, one per line" error={error}>
      {(control) => (
        <TextArea
          {...control}
          rows={3}
          className="font-mono text-xs"
          value={value}
          placeholder={placeholder}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function VolumeChoice(props: { chosen: readonly string[]; onChange: (chosen: string[]) => void }) {
  const { chosen, onChange } = props;
  const { data: volumes = [] } = useQuery(volumesQuery);
  if (volumes.length === 0) return null;
  return (
    <fieldset className="flex flex-col gap-1">
      <legend className="text-xs font-medium">Volumes, mounted below /mnt</legend>
      {volumes.map(({ name }) => (
        <label key={name} className="flex items-center gap-2">
          <Checkbox
            checked={chosen.includes(name)}
            onChange={(event) =>
              onChange(
                event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name),
              )
            }
          />
          {name}
        </label>
      ))}
    </fieldset>
  );
}
