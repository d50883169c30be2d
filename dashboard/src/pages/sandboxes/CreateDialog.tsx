import type { TemplateInfo } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { putSandbox } from "@/data/cache";
import { client, SERVER_URL } from "@/data/client";
import { keys, templatesQuery } from "@/data/queries";
import { Button, Dialog, ErrorNote, Snippets, toast } from "@/ui";
import { useSubmit } from "../signin/useSubmit";
import { EMPTY, type Form, More, NameAndLimit, Start } from "./CreateFields";
import { parsePairs } from "./filter";
import { createSnippets, type NewSandbox } from "./snippets";

/** Creates a sandbox, and shows the same as code. */
export function CreateDialog(props: {
  onClose: () => void;
  fromSnapshot?: string;
  template?: string;
}) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const templates = useQuery(templatesQuery);
  const [form, setForm] = useState<Form>({
    ...EMPTY,
    template: props.template ?? "",
    fromSnapshot: props.fromSnapshot ?? "",
  });
  const set = (fields: Partial<Form>): void => setForm((old) => ({ ...old, ...fields }));

  const template = form.template || defaultTemplate(usableNames(templates.data ?? []));
  const metadata = parsePairs(form.metadata);
  const env = parsePairs(form.env);
  const wanted = wantedOf(form, template, metadata.pairs, env.pairs);

  const { busy, error, submit } = useSubmit(async () => {
    const sandbox = await client.sandboxes.create(optionsOf(wanted));
    putSandbox(queries, sandbox.info);
    void queries.invalidateQueries({ queryKey: keys.quotas });
    toast.success("Sandbox created");
    props.onClose();
    await navigate({ to: "/sandboxes/$id", params: { id: sandbox.id } });
  });
  return (
    <Dialog
      open
      sticky
      onClose={props.onClose}
      title="Create a sandbox"
      description="A machine of its own, ready in less than a second from a template."
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button
            type="submit"
            form="create-sandbox"
            variant="primary"
            loading={busy}
            disabled={template === "" || metadata.error !== undefined || env.error !== undefined}
          >
            Create
          </Button>
        </>
      }
    >
      <form id="create-sandbox" className="flex flex-col gap-4" onSubmit={submit}>
        <Start form={form} template={template} set={set} />
        <NameAndLimit form={form} set={set} />
        <details className="rounded-md border border-line">
          <summary className="px-3 py-2 text-sm text-muted hover:text-ink">
            Labels, environment, network, volumes
          </summary>
          <More form={form} set={set} errors={{ metadata: metadata.error, env: env.error }} />
        </details>
        <AsCode wanted={wanted} />
        {error !== undefined && <ErrorNote error={error} title="The sandbox was not created" />}
      </form>
    </Dialog>
  );
}

function AsCode({ wanted }: { wanted: NewSandbox }) {
  return (
    <details className="rounded-md border border-line">
      <summary className="px-3 py-2 text-sm text-muted hover:text-ink">The same as code</summary>
      <div className="px-3 pb-3">
        <Snippets label="The same as code" snippets={createSnippets(wanted, SERVER_URL)} />
      </div>
    </details>
  );
}

/** Those that a sandbox can start from now. */
function usableNames(templates: readonly TemplateInfo[]): string[] {
  return templates.filter(({ status }) => status === undefined).map(({ name }) => name);
}

function defaultTemplate(names: readonly string[]): string {
  return (
    ["base", "code-interpreter", "mini"].find((name) => names.includes(name)) ?? names[0] ?? ""
  );
}

function wantedOf(
  form: Form,
  template: string,
  metadata: Record<string, string>,
  env: Record<string, string>,
): NewSandbox {
  return {
    ...(form.fromSnapshot ? { fromSnapshot: form.fromSnapshot } : { template }),
    ...(form.name.trim() ? { name: form.name.trim() } : {}),
    ...(form.ttl === "" ? {} : { ttlSeconds: Number(form.ttl) }),
    ...(form.persistent ? { persistent: true } : {}),
    metadata,
    env,
    ...(form.limitEgress ? { egressAllowlist: form.egress.split(/[\s,]+/).filter(Boolean) } : {}),
    volumes: form.volumes,
  };
}

function optionsOf(wanted: NewSandbox) {
  const { name, metadata = {}, env = {}, volumes = [], egressAllowlist, ...rest } = wanted;
  const labels = { ...(name ? { name } : {}), ...metadata };
  return {
    ...rest,
    ...(Object.keys(labels).length === 0 ? {} : { metadata: labels }),
    ...(Object.keys(env).length === 0 ? {} : { env: { ...env } }),
    ...(volumes.length === 0 ? {} : { volumes: volumes.map((one) => ({ name: one })) }),
    ...(egressAllowlist === undefined ? {} : { egressAllowlist: [...egressAllowlist] }),
  };
}
