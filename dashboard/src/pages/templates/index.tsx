import type { models, TemplateInfo } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Boxes, Hammer, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { client } from "@/data/client";
import { bytes, exactTime, megabytes } from "@/data/format";
import { buildsQuery, keys, templatesQuery } from "@/data/queries";
import {
  Badge,
  Button,
  EmptyState,
  ErrorNote,
  IconButton,
  PageBody,
  PageHeader,
  SkeletonRows,
  Snippets,
  useHotkey,
} from "@/ui";
import { CreateDialog } from "../sandboxes/CreateDialog";
import { type Deletion, useDelete } from "../useDelete";
import { BuildDialog } from "./BuildDialog";
import { BuildLog } from "./BuildLog";
import { Builds } from "./Builds";

/** What sandboxes start from: the catalogue, own templates and their builds. */
export function Templates() {
  const { build, create } = useSearch({ from: "/app/templates" });
  const navigate = useNavigate({ from: "/templates" });
  const { data, error, refetch } = useQuery(templatesQuery);
  const builds = useQuery(buildsQuery);
  const [starting, setStarting] = useState<string>();
  const [askDelete, deleteDialog] = useDelete(deletion);
  const setCreating = (open: boolean): void =>
    void navigate({ search: open ? { create: true } : {}, replace: true });
  useHotkey("c", () => setCreating(true));

  const own = data?.filter(({ is_global }) => !is_global) ?? [];
  const catalogue = data?.filter(({ is_global }) => is_global) ?? [];

  return (
    <>
      <PageHeader
        title="Templates"
        description="What sandboxes start from: a disk and a warm memory, so that a start takes milliseconds."
        actions={
          <Button variant="primary" icon={<Hammer size={14} />} onClick={() => setCreating(true)}>
            Build
          </Button>
        }
      />
      <PageBody>
        {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
        {data === undefined && !error && <SkeletonRows />}
        <TemplateCards
          title="Of this workspace"
          templates={own}
          onStart={setStarting}
          onDelete={askDelete}
        />
        <TemplateCards
          title="Catalogue of the server"
          templates={catalogue}
          onStart={setStarting}
        />
        {data?.length === 0 && <NoTemplates onBuild={() => setCreating(true)} />}
        {builds.data !== undefined && builds.data.length > 0 && (
          <Builds builds={builds.data} onOpen={(id) => void navigate({ search: { build: id } })} />
        )}
      </PageBody>
      {create === true && (
        <BuildDialog
          onClose={() => setCreating(false)}
          onStarted={(id) => void navigate({ search: { build: id }, replace: true })}
        />
      )}
      {build !== undefined && (
        <BuildLog
          id={build}
          onClose={() => void navigate({ search: {}, replace: true })}
          onStart={setStarting}
        />
      )}
      {starting !== undefined && (
        <CreateDialog template={starting} onClose={() => setStarting(undefined)} />
      )}
      {deleteDialog}
    </>
  );
}

function deletion(template: TemplateInfo): Deletion<TemplateInfo> {
  return {
    title: `Delete the template ${template.name}?`,
    lost: [
      `Its disk and memory, ${bytes(template.size_bytes)}`,
      "New sandboxes cannot start from it. Those that exist are not affected",
    ],
    action: "Delete the template",
    queryKey: keys.templates,
    isGone: ({ name }) => name === template.name,
    work: () => client.templates.delete(template.name),
    done: `Template ${template.name} deleted`,
  };
}

function TemplateCards(props: {
  title: string;
  templates: readonly TemplateInfo[];
  onStart: (name: string) => void;
  onDelete?: (template: TemplateInfo) => void;
}) {
  const { title, templates, onStart, onDelete } = props;
  if (templates.length === 0) return null;
  return (
    <section className="flex flex-col gap-2">
      <h2 className="text-sm font-semibold">{title}</h2>
      <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
        {templates.map((template) => (
          <li
            key={template.name}
            data-template={template.name}
            className="flex min-w-0 flex-col gap-2 rounded-lg border border-line bg-panel p-4"
          >
            <div className="flex items-center gap-2">
              <h3 className="min-w-0 flex-1 truncate text-base font-semibold">{template.name}</h3>
              {onDelete && (
                <IconButton
                  size="sm"
                  label={`Delete ${template.name}`}
                  icon={<Trash2 size={14} />}
                  onClick={() => onDelete(template)}
                />
              )}
            </div>
            <p className="line-clamp-2 min-h-9 text-muted">{descriptionOf(template)}</p>
            <div className="mt-auto flex flex-wrap items-center gap-1.5">
              <Badge>{template.cpu ?? "?"} CPU</Badge>
              <Badge>{megabytes(template.memory_mb)}</Badge>
              <Badge>{bytes(template.size_bytes)} disk</Badge>
              {template.databases && <Databases databases={template.databases} />}
              <Button
                size="sm"
                className="ml-auto"
                icon={<Play size={12} />}
                disabled={template.status !== undefined}
                onClick={() => onStart(template.name)}
              >
                Start
              </Button>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

const DATABASE_TONES = {
  waiting: "info",
  preparing: "info",
  ready: "ok",
  failed: "danger",
} as const;

/** Whether databases start from a template at once. */
function Databases({ databases }: { databases: models.DatabasePreparation }) {
  const { status, error, since, next_try_at: next } = databases;
  const begun = since === undefined ? "" : ` since ${exactTime(since)}`;
  const again = next === undefined ? "" : `; next try ${exactTime(next)}`;
  return (
    <Badge tone={DATABASE_TONES[status]}>
      <span title={error === undefined ? `${status}${begun}` : `${error}${again}`}>
        databases: {status}
      </span>
    </Badge>
  );
}

function descriptionOf({ description, meta, base }: TemplateInfo): string {
  const text = description ?? meta?.["description"];
  if (typeof text === "string" && text !== "") return text;
  return base ? `Built from ${base}` : "Baked on this server";
}

function NoTemplates({ onBuild }: { onBuild: () => void }) {
  return (
    <EmptyState
      icon={<Boxes size={32} strokeWidth={1.25} />}
      title="No templates yet"
      actions={
        <Button variant="primary" onClick={onBuild}>
          Build one from a Dockerfile
        </Button>
      }
    >
      <p>
        The operator bakes those of the catalogue on the server. You can build your own from a
        Dockerfile:
      </p>
      <Snippets
        label="Make a template"
        snippets={{
          CLI: "pandastack template bake mini          # on the server\npandastack template build my-tools -f Dockerfile",
          Python:
            'client.templates.build_from_dockerfile(\n    name="my-tools", dockerfile="FROM debian:12\\nRUN apt-get update"\n)',
          TypeScript:
            'await client.templates.buildFromDockerfile({\n  name: "my-tools",\n  dockerfile: "FROM debian:12\\nRUN apt-get update\\n",\n});',
        }}
      />
    </EmptyState>
  );
}
