import { stateLook } from "@/ui";

const FILLS: Record<string, string> = {
  ok: "fill-dot-ok stroke-dot-ok",
  warn: "fill-dot-warn stroke-dot-warn",
  danger: "fill-dot-danger stroke-dot-danger",
  info: "fill-dot-info stroke-dot-info",
  sleep: "fill-dot-sleep stroke-dot-sleep",
  neutral: "fill-dot-off stroke-dot-off",
  accent: "fill-accent stroke-accent",
};

/** A state as a mark: its colour and its shape differ, for people who do not see the colour. */
export function StateMark({ state }: { state: string }) {
  const { tone, moving } = stateLook(state);
  const className = `${FILLS[tone] ?? ""} ${moving ? "animate-breathe" : ""}`;
  switch (state) {
    case "paused":
      return (
        <g className={className}>
          <rect x={-5} y={-5} width={4} height={10} rx={1} stroke="none" />
          <rect x={1} y={-5} width={4} height={10} rx={1} stroke="none" />
        </g>
      );
    case "hibernated":
    case "hibernating":
      return <path d="M2 -6A6 6 0 1 0 6 2A5 5 0 0 1 2 -6Z" stroke="none" className={className} />;
    case "failed":
      return <path d="M0 -6L6 5H-6Z" stroke="none" className={className} />;
    case "deleted":
    case "stopping":
      return (
        <circle
          r={5}
          fill="none"
          strokeWidth={1.5}
          strokeDasharray="3 2"
          className="stroke-dot-off"
        />
      );
    default:
      return <circle r={5.5} stroke="none" className={className} />;
  }
}
