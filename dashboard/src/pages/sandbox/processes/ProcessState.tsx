import type { ProcessInfo } from "@pandastack/sdk";
import { Zap } from "lucide-react";
import { sandboxHandle } from "@/data/client";
import { Badge, Menu, MenuItem, toast } from "@/ui";

const SIGNALS = ["INT", "TERM", "HUP", "USR1", "STOP", "CONT", "KILL"];

/** Whether a process runs, and how it ended. */
export function ProcessState({ info }: { info: ProcessInfo }) {
  if (info.status === "running") return <Badge tone="ok">running</Badge>;
  if (info.timed_out) return <Badge tone="warn">timed out</Badge>;
  if (info.signal !== undefined) return <Badge tone="warn">signal {info.signal}</Badge>;
  return (
    <Badge tone={info.exit_code === 0 ? "neutral" : "danger"}>exit {info.exit_code ?? "?"}</Badge>
  );
}

/** Sends a signal to a process and its children. */
export function SignalMenu({ sandboxId, info }: { sandboxId: string; info: ProcessInfo }) {
  const send = async (signal: string): Promise<void> => {
    try {
      const process = await sandboxHandle(sandboxId).processes.get(info.id);
      await process.signal(signal);
      toast.success(`SIG${signal} sent to process ${info.pid}`);
    } catch (error) {
      toast.error(error);
    }
  };
  return (
    <Menu
      label={`Signals for process ${info.pid}`}
      trigger={
        <button
          type="button"
          aria-label={`Send a signal to process ${info.pid}`}
          className="rounded p-1 text-faint hover:bg-hover hover:text-ink"
        >
          <Zap size={14} />
        </button>
      }
    >
      {SIGNALS.map((signal) => (
        <MenuItem key={signal} danger={signal === "KILL"} onSelect={() => void send(signal)}>
          SIG{signal}
        </MenuItem>
      ))}
    </Menu>
  );
}
