/** Lists that change before the server answers. */

import { NotFoundError } from "@pandastack/sdk";
import type { QueryClient, QueryKey } from "@tanstack/react-query";
import { toast } from "@/ui/toast";

/** How rows leave a list. */
export interface Drop<Row> {
  readonly queryKey: QueryKey;
  readonly isGone: (row: Row) => boolean;
  readonly work: () => Promise<unknown>;
  /** What is said when it is done. */
  readonly done?: string;
}

/**
 * Takes rows out of a list at once. If the server refuses, the list is read again and the reason
 * is shown. Returns whether the rows are gone.
 */
export async function dropRows<Row>(queries: QueryClient, drop: Drop<Row>): Promise<boolean> {
  const { queryKey, isGone, work, done } = drop;
  // An answer that is on its way would bring the rows back.
  await queries.cancelQueries({ queryKey, exact: true });
  const before = queries.getQueryData<readonly Row[]>(queryKey);
  queries.setQueryData<readonly Row[]>(queryKey, (rows) => rows?.filter((row) => !isGone(row)));
  try {
    await work().catch((error: unknown) => {
      // It was gone already, and that is what was asked for.
      if (!(error instanceof NotFoundError)) throw error;
    });
    if (done !== undefined) toast.success(done);
    return true;
  } catch (error) {
    queries.setQueryData(queryKey, before);
    toast.error(error);
    return false;
  } finally {
    void queries.invalidateQueries({ queryKey });
  }
}
