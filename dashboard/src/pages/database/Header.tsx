import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GitBranch, RotateCw, Sun } from "lucide-react";
import { createdAt, type DatabaseInfo, databaseName, databasesQuery } from "@/data/databases";
import { shortId } from "@/data/format";
import { Badge, Button, CopyId, PageHeader, RelativeTime, StateBadge } from "@/ui";
import { useWake } from "./useWake";

/** Name, state and the actions of a database. */
export function DatabaseHeader(props: {
  database: DatabaseInfo;
  onBranch: () => void;
  onRestart: () => void;
}) {
  const { database, onBranch, onRestart } = props;
  const wake = useWake();
  const hasCredentials = Boolean(database.connection_url);
  return (
    <PageHeader
      title={databaseName(database)}
      aside={
        <>
          <StateBadge state={database.status} title={database.error} />
          {database.size && <Badge>{database.size}</Badge>}
          {database.always_on && <Badge>always on</Badge>}
          {database.update_available && <Badge tone="info">update available</Badge>}
        </>
      }
      description={<Origin database={database} />}
      actions={
        <>
          {database.status === "hibernated" && (
            <Button icon={<Sun size={14} />} onClick={() => wake(database)}>
              Wake
            </Button>
          )}
          {database.update_available && database.status === "running" && (
            <Button icon={<RotateCw size={14} />} onClick={onRestart}>
              Restart to update
            </Button>
          )}
          <Button
            variant="primary"
            icon={<GitBranch size={14} />}
            disabled={!hasCredentials || database.status === "failed"}
            onClick={onBranch}
          >
            Branch
          </Button>
        </>
      }
    />
  );
}

function Origin({ database }: { database: DatabaseInfo }) {
  const { data: all } = useQuery(databasesQuery);
  const { id, branched_from: branched, cloned_from: cloned, sandbox_id: machine } = database;
  const from = branched || cloned;
  const source = all?.find((one) => one.id === from);
  return (
    <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <CopyId id={id} />
      <span>
        created <RelativeTime at={createdAt(database)} />
      </span>
      {from && (
        <span>
          {branched ? "branched" : "cloned"} from{" "}
          {source === undefined ? (
            <span className="font-mono text-xs">{shortId(from)}</span>
          ) : (
            <Link to="/databases/$id" params={{ id: from }} className="text-accent underline">
              {databaseName(source)}
            </Link>
          )}
        </span>
      )}
      {machine && (
        <Link to="/sandboxes/$id" params={{ id: machine }} className="text-accent underline">
          its machine
        </Link>
      )}
    </span>
  );
}
