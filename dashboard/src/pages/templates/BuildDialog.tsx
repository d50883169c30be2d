import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "@/data/client";
import { keys, type TemplateBuild, templatesQuery } from "@/data/queries";
import {
  Button,
  Checkbox,
  Dialog,
  ErrorNote,
  Field,
  Input,
  Segmented,
  Select,
  TextArea,
} from "@/ui";
import { useSubmit } from "../signin/useSubmit";

interface Form {
  source: "dockerfile" | "image";
  name: string;
  dockerfile: string;
  image: string;
  files: readonly File[];
  size: string;
  memory: string;
  replace: boolean;
}

interface PartProps {
  form: Form;
  set: (fields: Partial<Form>) => void;
}

const EXAMPLE = `FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends jq
WORKDIR /srv
`;

const EMPTY: Form = {
  source: "dockerfile",
  name: "",
  dockerfile: EXAMPLE,
  image: "",
  files: [],
  size: "1024",
  memory: "",
  replace: false,
};

const FILES_BYTES_MAX = 50 * 1024 * 1024;
const NAME = /^[a-z0-9][a-z0-9._-]*$/;

/** Starts a build from a Dockerfile or an image. */
export function BuildDialog(props: { onClose: () => void; onStarted: (id: string) => void }) {
  const queries = useQueryClient();
  const templates = useQuery(templatesQuery);
  const [form, setForm] = useState(EMPTY);
  const set = (fields: Partial<Form>): void => setForm((old) => ({ ...old, ...fields }));
  const isTaken =
    templates.data?.some(({ name, is_global }) => name === form.name && !is_global) ?? false;
  const { busy, error, submit } = useSubmit(async () => {
    const build = await start({ ...form, replace: isTaken && form.replace });
    void queries.invalidateQueries({ queryKey: keys.builds });
    props.onStarted(build.id);
  });
  const ready = NAME.test(form.name) && (!isTaken || form.replace);
  return (
    <Dialog
      open
      sticky
      size="lg"
      onClose={props.onClose}
      title="Build a template"
      description="The server builds it in a machine of its own, and starts it once to keep its memory."
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button
            type="submit"
            form="build-template"
            variant="primary"
            loading={busy}
            disabled={!ready}
          >
            Build
          </Button>
        </>
      }
    >
      <form id="build-template" className="flex flex-col gap-4" onSubmit={submit}>
        <Basics form={form} set={set} isTaken={isTaken} />
        <Segmented
          label="Source"
          value={form.source}
          onChange={(source) => set({ source })}
          choices={[
            { value: "dockerfile", label: "Dockerfile" },
            { value: "image", label: "Image of a registry" },
          ]}
        />
        {form.source === "image" ? (
          <ImageFields form={form} set={set} />
        ) : (
          <DockerfileFields form={form} set={set} />
        )}
        {error !== undefined && <ErrorNote error={error} title="The build did not start" />}
      </form>
    </Dialog>
  );
}

function Basics({ form, set, isTaken }: PartProps & { isTaken: boolean }) {
  const isWrong = form.name !== "" && !NAME.test(form.name);
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-3">
        <Field
          label="Name"
          error={isWrong ? "Small letters, digits, dots and dashes" : undefined}
          hint={isTaken ? "This template exists" : undefined}
        >
          {(control) => (
            <Input
              {...control}
              required
              maxLength={64}
              autoComplete="off"
              spellCheck={false}
              value={form.name}
              onChange={(event) => set({ name: event.target.value })}
            />
          )}
        </Field>
        <Field label="Disk">
          {(control) => (
            <Select
              {...control}
              value={form.size}
              onChange={(event) => set({ size: event.target.value })}
            >
              {[1024, 2048, 4096, 8192, 16384].map((mb) => (
                <option key={mb} value={mb}>
                  {mb / 1024} GiB
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label="Memory">
          {(control) => (
            <Select
              {...control}
              value={form.memory}
              onChange={(event) => set({ memory: event.target.value })}
            >
              <option value="">As the server says</option>
              {[256, 512, 1024, 2048, 4096].map((mb) => (
                <option key={mb} value={mb}>
                  {mb} MiB
                </option>
              ))}
            </Select>
          )}
        </Field>
      </div>
      {isTaken && (
        <label className="flex items-center gap-2">
          <Checkbox
            checked={form.replace}
            onChange={(event) => set({ replace: event.target.checked })}
          />
          Replace the template {form.name}. Sandboxes that exist are not affected
        </label>
      )}
    </>
  );
}

function ImageFields({ form, set }: PartProps) {
  return (
    <Field label="Image" hint="name:tag or name@digest">
      {(control) => (
        <Input
          {...control}
          required
          spellCheck={false}
          placeholder="python:3.13-slim"
          className="font-mono text-xs"
          value={form.image}
          onChange={(event) => set({ image: event.target.value })}
        />
      )}
    </Field>
  );
}

function DockerfileFields({ form, set }: PartProps) {
  return (
    <>
      <Field label="Dockerfile">
        {(control) => (
          <TextArea
            {...control}
            required
            rows={10}
            spellCheck={false}
            className="font-mono text-xs leading-5"
            value={form.dockerfile}
            onChange={(event) => set({ dockerfile: event.target.value })}
          />
        )}
      </Field>
      <Field
        label="Files for COPY and ADD"
        optional
        hint="At most 50 MB. A folder: use the command line"
      >
        {(control) => (
          <input
            {...control}
            type="file"
            multiple
            onChange={(event) => set({ files: [...(event.target.files ?? [])] })}
            className="text-xs text-muted file:mr-3 file:rounded-md file:border file:border-line file:bg-panel file:px-2 file:py-1 file:text-ink"
          />
        )}
      </Field>
    </>
  );
}

async function start(form: Form): Promise<TemplateBuild> {
  const common = {
    name: form.name,
    sizeMb: Number(form.size),
    ...(form.memory === "" ? {} : { memoryMb: Number(form.memory) }),
    ...(form.replace ? { replace: true } : {}),
  };
  if (form.source === "image") {
    return client.templates.register({ ...common, imageRef: form.image.trim() });
  }
  const dockerfile = `${form.dockerfile.trimEnd()}\n`;
  const context = await contextOf(form.files);
  return client.templates.buildFromDockerfile({ ...common, dockerfile, context });
}

async function contextOf(files: readonly File[]): Promise<Record<string, Uint8Array>> {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  if (total > FILES_BYTES_MAX) throw new Error("The files are larger than 50 MB together.");
  const entries = files.map(
    async (file) => [file.name, new Uint8Array(await file.arrayBuffer())] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}
