import { useState } from "react";
import { type DatabaseInfo, databaseName, restartDatabase } from "@/data/databases";
import { toast } from "@/ui";
import { useChange } from "./useChange";

/** Starts a database again. */
export function useRestart(database: DatabaseInfo): { restart: () => void; isRestarting: boolean } {
  const change = useChange();
  const [isRestarting, setRestarting] = useState(false);
  const restart = (): void => {
    setRestarting(true);
    change(restartDatabase(database.id), `${databaseName(database)} starts again`)
      .catch((error: unknown) => toast.error(error))
      .finally(() => setRestarting(false));
  };
  return { restart, isRestarting };
}
