import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { createDatabase, type DatabaseSize, putDatabase } from "@/data/databases";
import { keys } from "@/data/queries";
import { Button, Checkbox, CodeBlock, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useSubmit } from "../signin/useSubmit";
import { createCommand } from "./command";
import { SizeField } from "./SizeField";

/** Asks for a new database, and opens its page. */
export function CreateDialog({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [label, setLabel] = useState("");
  const [size, setSize] = useState<DatabaseSize>("1g");
  const [isAlwaysOn, setAlwaysOn] = useState(false);
  const wanted = { label: label.trim(), size, always_on: isAlwaysOn };
  const { busy, error, submit } = useSubmit(async () => {
    const made = await createDatabase(wanted);
    putDatabase(queries, made);
    void queries.invalidateQueries({ queryKey: keys.quotas });
    await navigate({ to: "/databases/$id", params: { id: made.id } });
  });
  return (
    <Dialog open sticky onClose={onClose} title="Create a database">
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="Label" optional hint="To find it again; it can be used once or often">
          {(control) => (
            <Input
              {...control}
              maxLength={200}
              autoComplete="off"
              spellCheck={false}
              placeholder="app"
              value={label}
              onChange={(event) => setLabel(event.target.value)}
            />
          )}
        </Field>
        <SizeField
          size={size}
          onChange={setSize}
          hint="It cannot be changed later; a clone may have another"
        />
        <AlwaysOn checked={isAlwaysOn} onChange={setAlwaysOn} />
        <div className="flex flex-col gap-1">
          <span className="text-xs text-muted">The same as a command:</span>
          <CodeBlock code={createCommand(wanted)} />
        </div>
        {error !== undefined && <ErrorNote error={error} title="The database was not created" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function AlwaysOn(props: { checked: boolean; onChange: (checked: boolean) => void }) {
  const id = useId();
  return (
    <div className="flex gap-2">
      <Checkbox
        id={id}
        aria-describedby={`${id}-note`}
        checked={props.checked}
        onChange={(event) => props.onChange(event.target.checked)}
        className="mt-0.5"
      />
      <div>
        <label htmlFor={id}>Always on</label>
        <p id={`${id}-note`} className="text-xs text-muted">
          Otherwise it sleeps when nobody is connected, and the next connection wakes it.
        </p>
      </div>
    </div>
  );
}
