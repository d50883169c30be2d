import { useQuery } from "@tanstack/react-query";
import { RotateCw, TriangleAlert, Wrench } from "lucide-react";
import { useState } from "react";
import { backupsQuery } from "@/data/databaseBackups";
import { type DatabaseInfo, databaseName, rebuildDatabase } from "@/data/databases";
import { duration, exactTime, sentence } from "@/data/format";
import { Button, ConfirmDialog } from "@/ui";
import { useChange } from "./useChange";
import { useRestart } from "./useRestart";

/** A database that failed, and the two ways on. */
export function Failed({ database }: { database: DatabaseInfo }) {
  const { restart, isRestarting } = useRestart(database);
  const [isAsking, setAsking] = useState(false);
  const { failover_available: canRebuild, failover_reason: reason } = database;
  return (
    <section
      aria-label="The database failed"
      className="mx-4 mb-3 flex flex-col gap-3 rounded-md bg-danger-soft px-3 py-3 md:mx-6"
    >
      <div role="alert" className="flex items-start gap-2">
        <TriangleAlert size={16} className="mt-0.5 shrink-0 text-danger" aria-hidden="true" />
        <span className="min-w-0 break-words">
          The database failed{database.error ? `: ${database.error}` : "."}
        </span>
      </div>
      <div className="flex flex-wrap items-center gap-3">
        <Button
          variant="primary"
          icon={<RotateCw size={14} />}
          loading={isRestarting}
          onClick={restart}
        >
          Restart
        </Button>
        <p className="min-w-0 flex-1 basis-52">
          Starts it again with its data. Try this first: nothing is lost.
        </p>
      </div>
      {canRebuild !== undefined && (
        <div className="flex flex-wrap items-center gap-3">
          <Button
            variant="danger"
            icon={<Wrench size={14} />}
            disabled={!canRebuild}
            onClick={() => setAsking(true)}
          >
            Rebuild from the archive
          </Button>
          <p className="min-w-0 flex-1 basis-52 break-words">
            {sentence(reason ?? (canRebuild ? "For a disk that is lost" : "There is no archive"))}
            {canRebuild && <Eta database={database} />}
          </p>
        </div>
      )}
      {isAsking && <RebuildDialog database={database} onClose={() => setAsking(false)} />}
    </section>
  );
}

function Eta({ database: { failover_eta_seconds: eta } }: { database: DatabaseInfo }) {
  return eta === undefined ? null : ` It takes about ${duration(eta)}.`;
}

function RebuildDialog({ database, onClose }: { database: DatabaseInfo; onClose: () => void }) {
  const { data: backups } = useQuery(backupsQuery(database.id));
  const change = useChange();
  const name = databaseName(database);
  const latest = backups?.window?.latest;
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Rebuild ${name} from its archive?`}
      lost={[
        latest === undefined
          ? "What was written after the last archived moment"
          : `What was written after ${exactTime(latest)}`,
        "Its disk as it is now",
        "Its password and broker token. The overview shows the new ones; the address stays",
      ]}
      typeToConfirm={name}
      action="Rebuild"
      onConfirm={() => change(rebuildDatabase(database.id), `${name} is rebuilt`)}
    />
  );
}
