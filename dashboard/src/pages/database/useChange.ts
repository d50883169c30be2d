import { useQueryClient } from "@tanstack/react-query";
import { type DatabaseInfo, putDatabase } from "@/data/databases";
import { keys } from "@/data/queries";
import { toast } from "@/ui";

/** Shows what a change made of a database. A refused change is the caller's to report. */
export function useChange(): (change: Promise<DatabaseInfo>, done: string) => Promise<void> {
  const queries = useQueryClient();
  return async (change, done) => {
    try {
      putDatabase(queries, await change);
      toast.success(done);
    } finally {
      // Also after a refusal: the database may have changed before it.
      void queries.invalidateQueries({ queryKey: keys.databases });
    }
  };
}
