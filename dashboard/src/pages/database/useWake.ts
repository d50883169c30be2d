import { useQueryClient } from "@tanstack/react-query";
import { type DatabaseInfo, putDatabase, wakeDatabase } from "@/data/databases";
import { keys } from "@/data/queries";
import { toast } from "@/ui";

/** Wakes a database. Its state changes at once, and back if the server refuses. */
export function useWake(): (database: DatabaseInfo) => void {
  const queries = useQueryClient();
  return (database) => {
    putDatabase(queries, { ...database, status: "waking" });
    wakeDatabase(database.id)
      .catch((error: unknown) => toast.error(error))
      .finally(() => void queries.invalidateQueries({ queryKey: keys.databases }));
  };
}
