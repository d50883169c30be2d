import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GitBranch } from "lucide-react";
import { createdAt, type DatabaseInfo, databaseName, databasesQuery } from "@/data/databases";
import { plural, shortId } from "@/data/format";
import { Badge, Button, Card, CodeBlock, cx, ErrorNote, RelativeTime, StateBadge } from "@/ui";
import { type FamilyNode, familyOf, familySize } from "./family";

/** The family of a database: who came from whom. */
export default function BranchesPart(props: { database: DatabaseInfo; onBranch: () => void }) {
  const { database, onBranch } = props;
  const { data, error, refetch } = useQuery(databasesQuery);
  // The list may be older than the record of this page.
  const others = (data ?? []).filter(({ id }) => id !== database.id);
  const family = familyOf([database, ...others], database.id);
  const size = familySize(family);
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      <Card
        title="Branches"
        description={
          size === 1
            ? "Nothing was branched from it yet"
            : `A family of ${plural(size, "database")}, the oldest first`
        }
        actions={
          <Button
            size="sm"
            icon={<GitBranch size={14} />}
            disabled={!database.connection_url || database.status === "failed"}
            onClick={onBranch}
          >
            Branch
          </Button>
        }
      >
        <ul aria-label="Family of the database">
          <Member node={family} current={database.id} />
        </ul>
      </Card>
      <Card title="The same as a command">
        <CodeBlock code={`pandastack db branch ${database.id} --label experiment`} />
      </Card>
    </div>
  );
}

function Member({ node, current }: { node: FamilyNode; current: string }) {
  const { id, info, branches } = node;
  const isCurrent = id === current;
  return (
    <li className="relative">
      <div
        className={cx(
          "my-0.5 flex flex-wrap items-center gap-x-3 gap-y-0.5 rounded-md px-2 py-1.5",
          isCurrent && "bg-hover",
        )}
      >
        {info === undefined ? (
          <span className="text-muted">{shortId(id)}, deleted</span>
        ) : (
          <>
            <Link
              to="/databases/$id"
              params={{ id }}
              aria-current={isCurrent ? "true" : undefined}
              className="min-w-0 font-medium break-words hover:underline"
            >
              {databaseName(info)}
            </Link>
            <StateBadge state={info.status} title={info.error} />
            <span className="text-xs text-muted">
              <RelativeTime at={createdAt(info)} />
            </span>
            {isCurrent && <Badge tone="accent">this one</Badge>}
          </>
        )}
      </div>
      {branches.length > 0 && (
        <ul
          aria-label={`Branches of ${info === undefined ? shortId(id) : databaseName(info)}`}
          className="ml-3 border-l border-line pl-2 sm:ml-4 sm:pl-4"
        >
          {branches.map((one) => (
            <Member key={one.id} node={one} current={current} />
          ))}
        </ul>
      )}
    </li>
  );
}
