/** Actions on fork trees. They report by toast. */

import { useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { toast } from "@/ui/toast";
import { putSandbox, removeSandboxes } from "./cache";
import { sandboxHandle } from "./client";
import { plural } from "./format";
import { keys } from "./keys";

export const COPIES_MAX = 16;

export interface TreeActions {
  /** Makes copies as one tree. Resolves to their ids; undefined if it failed. */
  forkMany(id: string, count: number): Promise<string[] | undefined>;
  /** Keeps a branch as a sandbox of its own, and if asked deletes the others of its tree. */
  promote(id: string, cleanupSiblings: boolean): Promise<boolean>;
}

export function useTreeActions(): TreeActions {
  const queries = useQueryClient();
  return useMemo(
    () => ({
      async forkMany(id, count) {
        try {
          const tree = await sandboxHandle(id).forkTree(count);
          for (const { info } of tree) putSandbox(queries, info);
          void queries.invalidateQueries({ queryKey: keys.tree(id) });
          const first = tree.errors[0];
          if (first !== undefined) {
            toast.error(new Error(first.err), `${tree.errors.length} of ${count} copies failed`);
          } else toast.success(`${plural(tree.length, "copy", "copies")} made`);
          return tree.map((one) => one.id);
        } catch (error) {
          toast.error(error);
          return undefined;
        }
      },
      async promote(id, cleanupSiblings) {
        try {
          const { deleted = [], failures = {} } = await sandboxHandle(id).promote({
            cleanupSiblings,
          });
          removeSandboxes(queries, deleted);
          void queries.invalidateQueries({ queryKey: keys.sandbox(id) });
          const failed = Object.keys(failures).length;
          if (failed > 0) {
            toast.error(
              new Error(Object.values(failures)[0]),
              `${plural(failed, "branch", "branches")} could not be deleted`,
            );
          } else {
            const rest =
              deleted.length > 0
                ? `, ${plural(deleted.length, "other branch", "other branches")} deleted`
                : "";
            toast.success(`Branch promoted${rest}`);
          }
          return true;
        } catch (error) {
          toast.error(error);
          return false;
        }
      },
    }),
    [queries],
  );
}
