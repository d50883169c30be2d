import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { branchDatabase, type DatabaseInfo, databaseName, putDatabase } from "@/data/databases";
import { keys } from "@/data/queries";
import { Button, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useSubmit } from "../signin/useSubmit";

/** Asks for a branch, and opens its page. */
export function BranchDialog(props: { database: DatabaseInfo; onClose: () => void }) {
  const { database, onClose } = props;
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [label, setLabel] = useState("");
  const { busy, error, submit } = useSubmit(async () => {
    const made = await branchDatabase(database.id, label.trim());
    putDatabase(queries, made);
    void queries.invalidateQueries({ queryKey: keys.quotas });
    onClose();
    await navigate({ to: "/databases/$id", params: { id: made.id } });
  });
  return (
    <Dialog
      open
      sticky
      size="sm"
      onClose={onClose}
      title={`Branch ${databaseName(database)}`}
      description="A copy of all data as it is now, with a password of its own. The source goes on."
    >
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="Label" optional hint="The name of the branch">
          {(control) => (
            <Input
              {...control}
              maxLength={200}
              autoComplete="off"
              spellCheck={false}
              value={label}
              onChange={(event) => setLabel(event.target.value)}
            />
          )}
        </Field>
        {error !== undefined && <ErrorNote error={error} title="The branch was not made" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy}>
            Branch
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
