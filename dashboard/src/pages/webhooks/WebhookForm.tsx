import type { models } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "@/data/client";
import { keys } from "@/data/queries";
import { Button, Checkbox, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useSubmit } from "../signin/useSubmit";

/** The kinds that a webhook can get. */
const KINDS: readonly [string, string][] = [
  ["*", "Everything"],
  ["sandbox.*", "All about sandboxes"],
  ["sandbox.running", "A sandbox started"],
  ["sandbox.hibernated", "A sandbox fell asleep"],
  ["sandbox.woken", "A sandbox woke"],
  ["sandbox.forked", "A sandbox was forked"],
  ["sandbox.deleted", "A sandbox was deleted"],
  ["fork_tree.promoted", "A branch was promoted"],
  ["egress.denied", "A forbidden destination was tried"],
  ["vm.died", "A machine ended by itself"],
  ["billing.*", "The budget"],
];

/** Creates a webhook, or changes one. */
export function WebhookForm(props: {
  webhook?: models.Webhook;
  onClose: () => void;
  onDone: (webhook: models.Webhook) => void;
}) {
  const { webhook, onClose, onDone } = props;
  const queries = useQueryClient();
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [events, setEvents] = useState<readonly string[]>(webhook?.events ?? ["*"]);
  const [description, setDescription] = useState(webhook?.description ?? "");
  const { busy, error, submit } = useSubmit(async () => {
    const fields = { url: url.trim(), events: [...events], description };
    const result = webhook
      ? await client.webhooks.update(webhook.id, fields)
      : await client.webhooks.create(fields);
    await queries.invalidateQueries({ queryKey: keys.webhooks });
    onDone(result);
  });
  return (
    <Dialog
      open
      sticky
      onClose={onClose}
      title={webhook ? "Change the webhook" : "Create a webhook"}
    >
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="Address" hint="https, or http for a receiver in your network">
          {(control) => (
            <Input
              {...control}
              required
              type="url"
              placeholder="https://example.com/hook"
              className="font-mono text-xs"
              value={url}
              onChange={(event) => setUrl(event.target.value)}
            />
          )}
        </Field>
        <KindChoice events={events} onChange={setEvents} />
        <Field label="What it is for" optional>
          {(control) => (
            <Input
              {...control}
              maxLength={200}
              value={description}
              onChange={(event) => setDescription(event.target.value)}
            />
          )}
        </Field>
        {error !== undefined && <ErrorNote error={error} title="The webhook was not saved" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy} disabled={events.length === 0}>
            {webhook ? "Save" : "Create"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function KindChoice(props: {
  events: readonly string[];
  onChange: (events: readonly string[]) => void;
}) {
  const { events, onChange } = props;
  const known = new Set(KINDS.map(([kind]) => kind));
  const choices = [
    ...KINDS,
    ...events.filter((one) => !known.has(one)).map((one) => [one, ""] as const),
  ];
  return (
    <fieldset className="flex flex-col gap-1.5">
      <legend className="mb-1 text-xs font-medium">Events</legend>
      <div className="grid gap-1.5 sm:grid-cols-2">
        {choices.map(([kind, text]) => (
          <label key={kind} className="flex items-center gap-2">
            <Checkbox
              checked={events.includes(kind)}
              onChange={(event) => onChange(toggled(events, kind, event.target.checked))}
            />
            <span className="min-w-0">
              {text} <code className="font-mono text-2xs text-muted">{kind}</code>
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** `*` stands for all others, so it is alone. */
export function toggled(events: readonly string[], kind: string, on: boolean): readonly string[] {
  if (!on) return events.filter((one) => one !== kind);
  return kind === "*" ? ["*"] : [...events.filter((one) => one !== "*"), kind];
}
