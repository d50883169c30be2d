import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { sandboxHandle } from "@/data/client";
import { keys } from "@/data/queries";
import { Button, Dialog, Field, Input, toast } from "@/ui";
import { parsePort } from "./share";

/** Declares a port, so that it is listed before anything listens. */
export function DeclareDialog({ sandboxId, onClose }: { sandboxId: string; onClose: () => void }) {
  const queries = useQueryClient();
  const [port, setPort] = useState("");
  const [label, setLabel] = useState("");
  const [busy, setBusy] = useState(false);
  const number = parsePort(port);
  const declare = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (number === undefined) return;
    setBusy(true);
    try {
      await sandboxHandle(sandboxId).ports.declare(
        number,
        label.trim() === "" ? {} : { label: label.trim() },
      );
      await queries.invalidateQueries({ queryKey: keys.sandboxPart(sandboxId, "ports") });
      onClose();
    } catch (failure) {
      toast.error(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      size="sm"
      onClose={onClose}
      title="Declare a port"
      description="It is listed before anything listens there."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            form="declare-port"
            variant="primary"
            loading={busy}
            disabled={number === undefined}
          >
            Declare
          </Button>
        </>
      }
    >
      <form
        id="declare-port"
        className="grid grid-cols-2 gap-4"
        onSubmit={(event) => void declare(event)}
      >
        <Field label="Port" error={port !== "" && number === undefined ? "1 to 65535" : undefined}>
          {(control) => (
            <Input
              {...control}
              inputMode="numeric"
              value={port}
              onChange={(event) => setPort(event.target.value)}
            />
          )}
        </Field>
        <Field label="Label" optional>
          {(control) => (
            <Input {...control} value={label} onChange={(event) => setLabel(event.target.value)} />
          )}
        </Field>
      </form>
    </Dialog>
  );
}
