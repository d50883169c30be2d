import { useState } from "react";
import { sandboxHandle } from "@/data/client";
import { Button, Checkbox, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useSubmit } from "../../signin/useSubmit";

/** Starts a process. */
export function StartDialog(props: {
  sandboxId: string;
  onClose: () => void;
  onStarted: (id: string) => void;
}) {
  const { sandboxId, onClose, onStarted } = props;
  const [command, setCommand] = useState("");
  const [tag, setTag] = useState("");
  const [cwd, setCwd] = useState("");
  const [stdin, setStdin] = useState(false);
  const { busy, error, submit } = useSubmit(async () => {
    const process = await sandboxHandle(sandboxId).processes.start(command, {
      stdin,
      ...(tag.trim() === "" ? {} : { tag: tag.trim() }),
      ...(cwd.trim() === "" ? {} : { cwd: cwd.trim() }),
    });
    onStarted(process.id);
    onClose();
  });
  return (
    <Dialog
      open
      sticky
      size="sm"
      onClose={onClose}
      title="Start a process"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            form="start-process"
            variant="primary"
            loading={busy}
            disabled={command.trim() === ""}
          >
            Start
          </Button>
        </>
      }
    >
      <form id="start-process" className="flex flex-col gap-4" onSubmit={submit}>
        <CommandField value={command} onChange={setCommand} />
        <div className="grid grid-cols-2 gap-4">
          <Field label="Tag" optional>
            {(control) => (
              <Input {...control} value={tag} onChange={(event) => setTag(event.target.value)} />
            )}
          </Field>
          <Field label="Folder" optional>
            {(control) => (
              <Input {...control} value={cwd} onChange={(event) => setCwd(event.target.value)} />
            )}
          </Field>
        </div>
        <label className="flex items-center gap-2">
          <Checkbox checked={stdin} onChange={(event) => setStdin(event.target.checked)} /> Keep its
          input open
        </label>
        {error !== undefined && <ErrorNote error={error} title="The process was not started" />}
      </form>
    </Dialog>
  );
}

function CommandField(props: { value: string; onChange: (value: string) => void }) {
  return (
    <Field label="Command" hint="A line for the shell">
      {(control) => (
        <Input
          {...control}
          value={props.value}
          placeholder="python3 -m http.server 3000"
          spellCheck={false}
          autoComplete="off"
          className="font-mono text-xs"
          autoFocus
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
