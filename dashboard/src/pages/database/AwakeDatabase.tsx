import { Moon, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import type { DatabaseInfo } from "@/data/databases";
import { Button, EmptyState, Loading } from "@/ui";
import { useWake } from "./useWake";

/** Shows a part that needs a running server; else what to do. Looking at a page wakes nothing. */
export function AwakeDatabase(props: {
  database: DatabaseInfo;
  what: string;
  children: ReactNode;
}) {
  const { database, what, children } = props;
  const wake = useWake();
  switch (database.status) {
    case "running":
      return children;
    case "provisioning":
      return <Loading label="The server is being started" />;
    case "waking":
      return <Loading label="The database wakes up" />;
    case "hibernated":
      return (
        <EmptyState
          icon={<Moon size={32} strokeWidth={1.25} />}
          title="The database sleeps"
          actions={
            <Button variant="primary" onClick={() => wake(database)}>
              Wake it
            </Button>
          }
        >
          <p>
            Looking at this page does not wake it; the next connection does. Wake it to see {what}.
          </p>
        </EmptyState>
      );
    default:
      return (
        <EmptyState
          icon={<TriangleAlert size={32} strokeWidth={1.25} />}
          title="The database does not run"
        >
          <p>{database.error ?? `Its state is ${database.status}.`}</p>
        </EmptyState>
      );
  }
}
