import { useIsMutating, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Archive, History } from "lucide-react";
import { useState } from "react";
import { type Backups, backupsQuery, takeBackup, verifyBackup } from "@/data/databaseBackups";
import { type DatabaseInfo, databaseName } from "@/data/databases";
import { bytes, exactTime, plural } from "@/data/format";
import { keys } from "@/data/queries";
import { Button, Card, ErrorNote, Note, RelativeTime, SkeletonRows, toast } from "@/ui";
import { ArchiveNote } from "./ArchiveNote";
import { DrillCard } from "./Drill";
import { Restore } from "./Restore";
import { clampTo, rfc3339, type Span, spanOf } from "./times";

/** What a database can be restored from, and to which time. */
export default function BackupsPart({ database }: { database: DatabaseInfo }) {
  const { data, error, refetch } = useQuery(backupsQuery(database.id));
  const [chosen, setChosen] = useState<number>();
  const verify = useVerify(database.id);
  if (data === undefined) {
    if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
    return <SkeletonRows rows={8} />;
  }
  const span = spanOf(data.window);
  const canVerify = span !== undefined && data.drill?.status !== "running" && !verify.isPending;
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      <ArchiveNote archive={data.archive} />
      {span === undefined ? (
        <Note>
          {data.items.length === 0
            ? "There is no backup yet, so nothing can be restored. The first one is taken soon after a database is made."
            : "Nothing can be restored yet. The last two minutes never can, so a new database has to be a little older."}
        </Note>
      ) : (
        <Restore
          database={database}
          span={span}
          marks={data.items.map(({ taken_at: at }) => secondsOf(at))}
          chosen={chosen}
          onChoose={setChosen}
          onVerify={canVerify ? (at) => verify.mutate(at) : undefined}
        />
      )}
      <DrillCard
        drill={data.drill ?? undefined}
        onVerify={canVerify ? () => verify.mutate(undefined) : undefined}
      />
      <BaseBackups database={database} backups={data} span={span} onChoose={setChosen} />
    </div>
  );
}

/** Starts a drill, and shows it at once. */
function useVerify(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (at: number | undefined) =>
      verifyBackup(id, at === undefined ? {} : { target_time: rfc3339(at) }),
    onSuccess: (drill) => {
      queries.setQueryData<Backups>(backupsQuery(id).queryKey, (old) => old && { ...old, drill });
      toast.success("A restore is being tried. Its result is shown below");
    },
    onError: (error) => toast.error(error),
  });
}

function BaseBackups(props: {
  database: DatabaseInfo;
  backups: Backups;
  span: Span | undefined;
  onChoose: (at: number) => void;
}) {
  const { database, backups, span, onChoose } = props;
  const { items } = backups;
  return (
    <Card
      title="Base backups"
      description={
        items.length === 0
          ? "None yet"
          : `${plural(items.length, "backup")}, each verified when it was taken`
      }
      actions={<BackUpNow database={database} />}
    >
      <ul aria-label="Base backups" className="flex flex-col">
        {items.map(({ name, taken_at: at, size_bytes: size }) => (
          <li
            key={name}
            className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-line py-1.5 last:border-b-0"
          >
            <span className="min-w-0 flex-1 basis-52">
              <span className="block">
                <RelativeTime at={at} />
                <span className="text-muted">, {exactTime(at)}</span>
              </span>
              <code className="block font-mono text-2xs break-all text-muted">{name}</code>
            </span>
            <span className="text-xs tabular-nums">{bytes(size)}</span>
            {span && (
              <Button
                size="sm"
                icon={<History size={14} />}
                aria-label={`Choose the time of ${name}`}
                onClick={() => onChoose(clampTo(secondsOf(at), span))}
              >
                Choose
              </Button>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Takes a backup. It goes on while other pages are shown. */
function BackUpNow({ database }: { database: DatabaseInfo }) {
  const queries = useQueryClient();
  const mutationKey = keys.databasePart(database.id, "back-up");
  const isBusy = useIsMutating({ mutationKey }) > 0;
  const { mutate } = useMutation({
    mutationKey,
    mutationFn: () => takeBackup(database.id),
    onSuccess: ({ size_bytes: size }) => {
      toast.success(`${databaseName(database)} is backed up, ${bytes(size)}`);
      void queries.invalidateQueries(backupsQuery(database.id));
    },
    onError: (error) => toast.error(error),
  });
  const canBackUp = database.status === "running" || database.status === "hibernated";
  return (
    <Button
      size="sm"
      icon={<Archive size={14} />}
      loading={isBusy}
      disabled={!canBackUp}
      onClick={() => mutate()}
    >
      {isBusy ? "Backing up" : "Back up now"}
    </Button>
  );
}

/** A backup can be restored from the second after its end. */
function secondsOf(iso: string): number {
  return Math.ceil(Date.parse(iso) / 1000);
}
