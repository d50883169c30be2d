import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { type DatabaseInfo, databaseStatsQuery } from "@/data/databases";
import { bytes, count, duration, percent } from "@/data/format";
import { Card, ErrorNote, Meter, Note, Skeleton, Stat } from "@/ui";
import { AwakeDatabase } from "./AwakeDatabase";
import { Connection } from "./Connection";

/** From here on the reader should know that the disk gets full. */
const DISK_WARN_PCT = 80;

/** How to connect, and how the server is. */
export function Overview({ database }: { database: DatabaseInfo }) {
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      <Connection database={database} />
      <AwakeDatabase database={database} what="its figures">
        <Figures id={database.id} />
      </AwakeDatabase>
    </div>
  );
}

/** Read every few seconds while the page is visible. Only for a database that runs. */
function Figures({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(databaseStatsQuery(id));
  if (data === undefined) {
    if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
    return <Skeleton className="h-40" />;
  }
  return (
    <>
      {data.disk_used_pct >= DISK_WARN_PCT && (
        <Note tone="warn">
          {percent(data.disk_used_pct)} of the disk are used. {bytes(data.disk_avail_bytes)} are
          left.
        </Note>
      )}
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <Stat label="Data" value={bytes(data.db_size_bytes)} hint="of this database" />
        <Stat
          label="Connections"
          value={count(data.connections)}
          hint={`of ${count(data.max_connections)}`}
        />
        <Stat
          label="Cache hits"
          value={percent(data.cache_hit_ratio * 100)}
          hint="reads without the disk"
        />
        <Stat
          label="Up"
          value={duration(data.uptime_seconds)}
          hint={data.postgres_version ? `PostgreSQL ${data.postgres_version}` : undefined}
        />
      </div>
      <Limits stats={data} />
    </>
  );
}

function Limits({ stats }: { stats: models.DatabaseStats }) {
  return (
    <Card title="Limits">
      <div className="grid gap-4 sm:grid-cols-2">
        <Meter
          label="Disk"
          used={stats.disk_used_bytes}
          limit={stats.disk_size_bytes}
          text={`${bytes(stats.disk_used_bytes)} of ${bytes(stats.disk_size_bytes)}`}
        />
        <Meter
          label="Connections"
          used={stats.connections}
          limit={stats.max_connections}
          text={`${count(stats.connections)} of ${count(stats.max_connections)}`}
        />
      </div>
    </Card>
  );
}
