import type { ReactNode } from "react";
import { cx } from "./cx";

export type Tone = "neutral" | "ok" | "warn" | "danger" | "info" | "sleep" | "accent";

const TONES: Record<Tone, string> = {
  neutral: "bg-hover text-muted",
  ok: "bg-ok-soft text-ok",
  warn: "bg-warn-soft text-warn",
  danger: "bg-danger-soft text-danger",
  info: "bg-info-soft text-info",
  sleep: "bg-sleep-soft text-sleep",
  accent: "bg-accent-soft text-accent",
};

export function Badge(props: { tone?: Tone; children: ReactNode; className?: string }) {
  const { tone = "neutral", children, className } = props;
  return (
    <span
      className={cx(
        "inline-flex items-center gap-1 rounded px-1.5 py-px text-xs whitespace-nowrap",
        TONES[tone],
        className,
      )}
    >
      {children}
    </span>
  );
}

interface StateLook {
  readonly tone: Tone;
  readonly dot: string;
  /** What people call the state. */
  readonly label: string;
  readonly moving?: boolean;
}

const LOOKS: Record<string, StateLook> = {
  running: { tone: "ok", dot: "bg-dot-ok", label: "Running" },
  paused: { tone: "warn", dot: "bg-dot-warn", label: "Paused" },
  hibernated: { tone: "sleep", dot: "bg-dot-sleep", label: "Asleep" },
  hibernating: { tone: "sleep", dot: "bg-dot-sleep", label: "Falling asleep", moving: true },
  waking: { tone: "info", dot: "bg-dot-info", label: "Waking", moving: true },
  creating: { tone: "info", dot: "bg-dot-info", label: "Creating", moving: true },
  provisioning: { tone: "info", dot: "bg-dot-info", label: "Creating", moving: true },
  deleting: { tone: "neutral", dot: "bg-dot-off", label: "Deleting", moving: true },
  stopping: { tone: "neutral", dot: "bg-dot-off", label: "Deleting", moving: true },
  deleted: { tone: "neutral", dot: "bg-dot-off", label: "Deleted" },
  failed: { tone: "danger", dot: "bg-dot-danger", label: "Failed" },
  // Builds and deliveries.
  building: { tone: "info", dot: "bg-dot-info", label: "Building", moving: true },
  queued: { tone: "neutral", dot: "bg-dot-off", label: "Queued" },
  baking: { tone: "info", dot: "bg-dot-info", label: "Baking", moving: true },
  done: { tone: "ok", dot: "bg-dot-ok", label: "Done" },
  pending: { tone: "info", dot: "bg-dot-info", label: "Pending", moving: true },
  delivered: { tone: "ok", dot: "bg-dot-ok", label: "Delivered" },
  dead: { tone: "danger", dot: "bg-dot-danger", label: "Given up" },
};

/** How a state of a sandbox, database, build or delivery looks. */
export function stateLook(state: string): StateLook {
  return LOOKS[state] ?? { tone: "neutral", dot: "bg-dot-off", label: state };
}

/** A dot in the colour of a state. */
export function StateDot({ state, className }: { state: string; className?: string }) {
  const { dot, moving } = stateLook(state);
  return (
    <span
      aria-hidden="true"
      className={cx("size-2 shrink-0 rounded-full", dot, moving && "animate-breathe", className)}
    />
  );
}

/** The state of a build. The server says `running` for what sandboxes do too. */
export function buildState(status: string): string {
  return status === "running" ? "building" : status;
}

/** Dot and name of a state. */
export function StateBadge({ state, title }: { state: string; title?: string | undefined }) {
  return (
    <span
      data-state-name={state}
      title={title}
      className="inline-flex items-center gap-2 whitespace-nowrap"
    >
      <StateDot state={state} />
      {stateLook(state).label}
    </span>
  );
}
