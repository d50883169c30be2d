import { Moon, Pause, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { useSandboxActions } from "@/data/actions";
import type { SandboxInfo } from "@/data/queries";
import { Button, EmptyState, Loading } from "@/ui";

/** Shows a part that needs a running machine; else what to do. Looking at a page wakes nothing. */
export function Awake(props: { sandbox: SandboxInfo; what: string; children: ReactNode }) {
  const { sandbox, what, children } = props;
  const actions = useSandboxActions();
  const { id, status } = sandbox;
  if (status === "hibernated" || status === "hibernating") {
    return (
      <EmptyState
        icon={<Moon size={32} strokeWidth={1.25} />}
        title="The sandbox sleeps"
        actions={
          <Button
            variant="primary"
            disabled={status === "hibernating"}
            onClick={() => void actions.run("wake", [id])}
          >
            Wake it
          </Button>
        }
      >
        <p>Its memory and disk are saved. Wake it to see {what}.</p>
      </EmptyState>
    );
  }
  if (status === "paused") {
    return (
      <EmptyState
        icon={<Pause size={32} strokeWidth={1.25} />}
        title="The sandbox is paused"
        actions={
          <Button variant="primary" onClick={() => void actions.run("resume", [id])}>
            Resume it
          </Button>
        }
      >
        <p>Its CPUs stand still. Resume it to see {what}.</p>
      </EmptyState>
    );
  }
  if (status === "creating" || status === "waking") return <Loading label="The sandbox starts" />;
  if (status !== "running") {
    return (
      <EmptyState
        icon={<TriangleAlert size={32} strokeWidth={1.25} />}
        title="The machine does not run"
      >
        <p>
          {sandbox.status_reason ??
            `Its state is ${status}. A fork or a snapshot may still have its data.`}
        </p>
      </EmptyState>
    );
  }
  return children;
}
