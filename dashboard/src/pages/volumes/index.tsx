import type { models } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { HardDrive, MoveUpRight, Plus, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { count, megabytes, shortId } from "@/data/format";
import { keys, volumesQuery } from "@/data/queries";
import {
  Badge,
  Button,
  type Column,
  CopyText,
  Dialog,
  EmptyState,
  ErrorNote,
  Field,
  IconButton,
  Input,
  PageHeader,
  RelativeTime,
  SkeletonRows,
  Snippets,
  Table,
  toast,
  useHotkey,
} from "@/ui";
import { useSubmit } from "../signin/useSubmit";
import { type Deletion, useDelete } from "../useDelete";

/** Disks that outlive the sandboxes that use them. */
export function Volumes() {
  const { data, error, refetch } = useQuery(volumesQuery);
  const { create: creating = false } = useSearch({ from: "/app/volumes" });
  const go = useNavigate({ from: "/volumes" });
  const setCreating = (create: boolean): void =>
    void go({ search: create ? { create } : {}, replace: true });
  const [growing, setGrowing] = useState<models.Volume>();
  const [askDelete, deleteDialog] = useDelete(deletion);
  const columns = useMemo(() => columnsOf(setGrowing, askDelete), [askDelete]);
  useHotkey("c", () => setCreating(true));
  return (
    <div className="flex h-full flex-col">
      <PageHeader
        title="Volumes"
        aside={data && <Badge>{count(data.length)}</Badge>}
        description="Disks that stay when a sandbox is deleted."
        actions={
          <Button variant="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>
            Create
          </Button>
        }
      />
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <SkeletonRows />}
      {data?.length === 0 && <NoVolumes />}
      {data !== undefined && data.length > 0 && (
        <Table fill label="Volumes" rows={data} rowId={({ name }) => name} columns={columns} />
      )}
      {creating && <CreateVolume onClose={() => setCreating(false)} />}
      {growing && <GrowVolume volume={growing} onClose={() => setGrowing(undefined)} />}
      {deleteDialog}
    </div>
  );
}

function deletion(volume: models.Volume): Deletion<models.Volume> {
  return {
    title: `Delete the volume ${volume.name}?`,
    lost: [`All files on it, up to ${megabytes(volume.size_mb)}. There is no copy`],
    typeToConfirm: volume.name,
    action: "Delete the volume",
    queryKey: keys.volumes,
    isGone: ({ name }) => name === volume.name,
    work: () => client.volumes.delete(volume.name),
    done: `Volume ${volume.name} deleted`,
  };
}

function columnsOf(
  onGrow: (volume: models.Volume) => void,
  onDelete: (volume: models.Volume) => void,
): Column<models.Volume>[] {
  return [
    {
      id: "name",
      header: "Volume",
      width: "minmax(120px, 1.2fr)",
      sort: (row) => row.name,
      cell: (row) => (
        <>
          <CopyText text={row.name} className="text-ink" />
          {row.sandbox_id && (
            <span title="Made by a fork or from a snapshot. It is deleted with its sandbox.">
              <Badge className="ml-2">copy</Badge>
            </span>
          )}
        </>
      ),
    },
    {
      id: "size",
      header: "Size",
      width: "96px",
      align: "end",
      sort: (row) => row.size_mb,
      cell: (row) => megabytes(row.size_mb),
    },
    {
      id: "used",
      header: "Used by",
      width: "minmax(120px, 1.5fr)",
      from: 480,
      cell: (row) => <Users ids={row.attached_to} />,
    },
    {
      id: "created",
      header: "Created",
      width: "96px",
      align: "end",
      from: 560,
      sort: (row) => row.created_at,
      cell: (row) => <RelativeTime at={row.created_at} />,
    },
    {
      id: "actions",
      header: "Actions",
      headerHidden: true,
      width: "84px",
      align: "end",
      cell: (row) => (
        <>
          <IconButton
            size="sm"
            label={`Make ${row.name} larger`}
            icon={<MoveUpRight size={14} />}
            onClick={() => onGrow(row)}
          />
          <IconButton
            size="sm"
            label={
              row.attached_to.length > 0 ? "In use: delete the sandbox first" : `Delete ${row.name}`
            }
            disabled={row.attached_to.length > 0}
            icon={<Trash2 size={14} />}
            onClick={() => onDelete(row)}
          />
        </>
      ),
    },
  ];
}

function Users({ ids }: { ids: readonly string[] }) {
  if (ids.length === 0) return <span className="text-faint">no sandbox</span>;
  return (
    <span className="flex gap-2 overflow-hidden">
      {ids.map((id) => (
        <Link
          key={id}
          to="/sandboxes/$id"
          params={{ id }}
          className="font-mono text-xs hover:underline"
        >
          {shortId(id)}
        </Link>
      ))}
    </span>
  );
}

function CreateVolume({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [size, setSize] = useState("10");
  const { busy, error, submit } = useSubmit(async () => {
    await client.volumes.create({ name: name.trim(), sizeGb: Number(size) });
    await queries.invalidateQueries({ queryKey: keys.volumes });
    toast.success(`Volume ${name} created`);
    onClose();
  });
  return (
    <Dialog open sticky size="sm" onClose={onClose} title="Create a volume">
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="Name" hint="Sandboxes name it when they are created">
          {(control) => (
            <Input
              {...control}
              required
              maxLength={64}
              autoComplete="off"
              spellCheck={false}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <SizeField value={size} onChange={setSize} min={0.1} />
        {error !== undefined && <ErrorNote error={error} title="The volume was not created" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function GrowVolume({ volume, onClose }: { volume: models.Volume; onClose: () => void }) {
  const queries = useQueryClient();
  const now = volume.size_mb / 1024;
  const [size, setSize] = useState(String(Math.ceil(now * 2)));
  const { busy, error, submit } = useSubmit(async () => {
    await client.volumes.grow(volume.name, { sizeGb: Number(size) });
    await queries.invalidateQueries({ queryKey: keys.volumes });
    toast.success(`Volume ${volume.name} is larger now`);
    onClose();
  });
  return (
    <Dialog
      open
      sticky
      size="sm"
      onClose={onClose}
      title={`Make ${volume.name} larger`}
      description={`It has ${megabytes(volume.size_mb)}. It can be in use meanwhile, and never gets smaller.`}
    >
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <SizeField value={size} onChange={setSize} min={now} />
        {error !== undefined && <ErrorNote error={error} title="The volume was not changed" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy} disabled={Number(size) <= now}>
            Make it larger
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function SizeField(props: { value: string; onChange: (value: string) => void; min: number }) {
  return (
    <Field label="Size in GiB">
      {(control) => (
        <Input
          {...control}
          required
          type="number"
          step="any"
          min={props.min}
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

function NoVolumes() {
  return (
    <EmptyState icon={<HardDrive size={32} strokeWidth={1.25} />} title="No volumes yet">
      <p>A volume keeps files when its sandbox is deleted, and moves to the next one:</p>
      <Snippets
        label="Create a volume"
        snippets={{
          CLI: "pandastack volume create data --size 10G\npandastack sandbox create -t mini --volume data:/data",
          Python:
            'from pandastack import Sandbox, Volume\n\nvolume = Volume.get_or_create(name="data", size_gb=10)\nsandbox = Sandbox(volumes=[volume.mount("/data")])',
          TypeScript:
            'const volume = await Volume.getOrCreate({ name: "data", sizeGb: 10 });\nconst sandbox = await Sandbox.create({ volumes: [volume.mount("/data")] });',
        }}
      />
    </EmptyState>
  );
}
