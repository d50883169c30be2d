import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Drop, dropRows } from "@/data/rows";
import { ConfirmDialog, type ConfirmDialogProps } from "@/ui";

/** What is asked before a row is deleted, and how it leaves its list. */
export type Deletion<Row> = Drop<Row> & Omit<ConfirmDialogProps, "open" | "onClose" | "onConfirm">;

/** Asks before a row of a list is deleted. Returns how to ask, and the dialog to be shown. */
export function useDelete<Row extends object>(
  describe: (row: Row) => Deletion<Row>,
): [ask: (row: Row) => void, dialog: ReactNode] {
  const queries = useQueryClient();
  const [asked, ask] = useState<Row>();
  if (asked === undefined) return [ask, null];
  const deletion = describe(asked);
  const dialog = (
    <ConfirmDialog
      {...deletion}
      open
      onClose={() => ask(undefined)}
      // Nobody waits for the server: the row and the dialog go at once.
      onConfirm={() => void dropRows(queries, deletion)}
    />
  );
  return [ask, dialog];
}
