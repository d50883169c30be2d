import type { ProcessInfo } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { Send, Trash2 } from "lucide-react";
import { type FormEvent, useEffect, useState } from "react";
import { sandboxHandle } from "@/data/client";
import { bytes } from "@/data/format";
import { keys } from "@/data/queries";
import {
  Button,
  ConfirmDialog,
  CopyId,
  Dialog,
  ErrorNote,
  IconButton,
  Input,
  RelativeTime,
  toast,
} from "@/ui";
import { type Piece, Pieces, withPiece } from "../Pieces";
import { ProcessState, SignalMenu } from "./ProcessState";

/** One process: its output as it comes, its input, and its end. */
export function ProcessSheet(props: { sandboxId: string; info: ProcessInfo; onClose: () => void }) {
  const { sandboxId, info, onClose } = props;
  const { pieces, error } = useOutput(sandboxId, info.id);
  const [killing, setKilling] = useState(false);
  return (
    <Dialog
      open
      place="side"
      onClose={onClose}
      title={<span className="font-mono text-base">{info.cmd}</span>}
      description={
        <span className="flex flex-wrap items-center gap-3">
          <ProcessState info={info} /> PID {info.pid} <CopyId id={info.id} full />
          <RelativeTime at={info.started_at} />
        </span>
      }
      footer={
        <>
          {info.status === "running" && <SignalMenu sandboxId={sandboxId} info={info} />}
          <Button variant="danger" icon={<Trash2 size={14} />} onClick={() => setKilling(true)}>
            {info.status === "running" ? "Kill and forget" : "Forget"}
          </Button>
        </>
      }
    >
      <div className="flex h-full flex-col gap-2">
        {error !== undefined && <ErrorNote error={error} />}
        <Pieces
          follow
          pieces={pieces}
          label="Output of the process"
          className="min-h-40 flex-1 rounded-md border border-line"
        />
        {info.stdin && info.status === "running" && (
          <StdinForm sandboxId={sandboxId} id={info.id} />
        )}
      </div>
      {killing && (
        <Killing
          sandboxId={sandboxId}
          info={info}
          onClose={() => setKilling(false)}
          onGone={onClose}
        />
      )}
    </Dialog>
  );
}

function StdinForm({ sandboxId, id }: { sandboxId: string; id: string }) {
  const [input, setInput] = useState("");
  const write = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      await (await sandboxHandle(sandboxId).processes.get(id)).write(`${input}\n`);
      setInput("");
    } catch (failure) {
      toast.error(failure);
    }
  };
  return (
    <form className="flex gap-2" onSubmit={(event) => void write(event)}>
      <Input
        aria-label="Input for the process"
        placeholder="Input"
        value={input}
        className="font-mono text-xs"
        onChange={(event) => setInput(event.target.value)}
      />
      <IconButton type="submit" label="Send the line" icon={<Send size={14} />} />
    </form>
  );
}

function Killing(props: {
  sandboxId: string;
  info: ProcessInfo;
  onClose: () => void;
  onGone: () => void;
}) {
  const { sandboxId, info, onClose, onGone } = props;
  const queries = useQueryClient();
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={info.status === "running" ? "Kill the process?" : "Forget the process?"}
      lost={[
        `Its output, ${bytes(info.stdout_bytes + info.stderr_bytes)}`,
        ...(info.status === "running" ? ["What it does now, and its children"] : []),
      ]}
      action={info.status === "running" ? "Kill it" : "Forget it"}
      onConfirm={async () => {
        try {
          await (await sandboxHandle(sandboxId).processes.get(info.id)).kill();
          await queries.invalidateQueries({
            queryKey: keys.sandboxPart(sandboxId, "processes"),
          });
          onGone();
        } catch (failure) {
          toast.error(failure);
        }
      }}
    />
  );
}

function useOutput(sandboxId: string, id: string): { pieces: readonly Piece[]; error: unknown } {
  const [pieces, setPieces] = useState<readonly Piece[]>([]);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    setPieces([]);
    setError(undefined);
    const follow = async (): Promise<void> => {
      const process = await sandboxHandle(sandboxId).processes.get(id, { signal });
      for await (const event of process.follow({ offset: process.info.kept_from, signal })) {
        if (event.type === "stdout" || event.type === "stderr") {
          const { type: stream, data: text } = event;
          setPieces((old) => withPiece(old, { stream, text }));
        } else if (event.type === "lost") {
          setPieces((old) =>
            withPiece(old, {
              stream: "stderr",
              text: `[${bytes(event.bytes)} are no longer kept]\n`,
            }),
          );
        }
      }
    };
    follow().catch((failure: unknown) => {
      if (!signal.aborted) setError(failure);
    });
    return () => stop.abort();
  }, [sandboxId, id]);
  return { pieces, error };
}
