import { type models, NotFoundError } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { LogOut } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { keys, sessionsQuery } from "@/data/queries";
import { dropRows } from "@/data/rows";
import { signOut } from "@/data/session";
import {
  Badge,
  Button,
  Card,
  type Column,
  ConfirmDialog,
  ErrorNote,
  IconButton,
  RelativeTime,
  SkeletonRows,
  Table,
  toast,
} from "@/ui";
import { agentName } from "./agent";

/** Where the person is signed in, and how to end that. */
export function Sessions() {
  const queries = useQueryClient();
  const { data, error, refetch } = useQuery(sessionsQuery);
  const [everywhere, setEverywhere] = useState(false);
  const columns = useMemo(
    () =>
      columnsOf((session) =>
        dropRows<models.LoginSession>(queries, {
          queryKey: keys.sessions,
          isGone: ({ id }) => id === session.id,
          work: () => client.auth.endSession(session.id),
          done: "The session has ended",
        }),
      ),
    [queries],
  );
  const endAll = async (): Promise<void> => {
    const others = (data ?? []).filter(({ current }) => !current);
    const results = await Promise.allSettled(others.map(({ id }) => client.auth.endSession(id)));
    // One that has ended meanwhile is what was asked for.
    const failed = results.find(
      (one) => one.status === "rejected" && !(one.reason instanceof NotFoundError),
    ) as PromiseRejectedResult | undefined;
    if (failed) {
      toast.error(failed.reason, "Not all sessions have ended");
      await queries.invalidateQueries({ queryKey: keys.sessions });
      return;
    }
    await signOut();
  };
  return (
    <Card
      title="Sessions"
      flush
      actions={
        <Button
          size="sm"
          variant="danger"
          icon={<LogOut size={14} />}
          onClick={() => setEverywhere(true)}
        >
          Sign out everywhere
        </Button>
      }
    >
      {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
      {data ? (
        <Table label="Sessions" rows={data} rowId={({ id }) => id} columns={columns} />
      ) : (
        !error && <SkeletonRows rows={3} />
      )}
      <ConfirmDialog
        open={everywhere}
        onClose={() => setEverywhere(false)}
        title="Sign out everywhere?"
        lead="What ends:"
        lost={["All your sessions, also this one. Open terminals and streams end", "API keys stay"]}
        action="Sign out everywhere"
        onConfirm={endAll}
      />
    </Card>
  );
}

function columnsOf(
  onEnd: (session: models.LoginSession) => Promise<unknown>,
): Column<models.LoginSession>[] {
  return [
    {
      id: "agent",
      header: "Program",
      width: "minmax(140px, 1.6fr)",
      cell: (row) => (
        <span className="flex items-center gap-2" title={row.agent}>
          <span className="truncate">{agentName(row.agent)}</span>
          {row.current && <Badge tone="accent">this one</Badge>}
        </span>
      ),
    },
    {
      id: "address",
      header: "From",
      width: "minmax(100px, 1fr)",
      from: 480,
      cell: (row) => row.address,
    },
    {
      id: "used",
      header: "Last used",
      width: "100px",
      align: "end",
      sort: (row) => row.last_used_at,
      cell: (row) => <RelativeTime at={row.last_used_at} />,
    },
    {
      id: "expires",
      header: "Expires",
      width: "96px",
      align: "end",
      from: 560,
      cell: (row) => <RelativeTime at={row.expires_at} />,
    },
    {
      id: "actions",
      header: "Actions",
      headerHidden: true,
      width: "52px",
      align: "end",
      cell: (row) =>
        row.current ? null : (
          <IconButton
            size="sm"
            label="End this session"
            icon={<LogOut size={14} />}
            onClick={() => void onEnd(row)}
          />
        ),
    },
  ];
}
