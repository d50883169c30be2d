import { CircleAlert, RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "./Button";
import { CopyText } from "./Copy";
import { cx } from "./cx";
import { errorParts } from "./errors";

export function Spinner({ size = 16, className }: { size?: number; className?: string }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      aria-hidden="true"
      className={cx("animate-spin", className)}
    >
      <circle
        cx="8"
        cy="8"
        r="6"
        fill="none"
        stroke="currentColor"
        strokeWidth="2"
        opacity="0.25"
      />
      <path d="M14 8a6 6 0 0 0-6-6" fill="none" stroke="currentColor" strokeWidth="2" />
    </svg>
  );
}

/** A grey block in the place of what is being read. */
export function Skeleton({ className }: { className?: string }) {
  return (
    <div
      aria-hidden="true"
      className={cx("animate-breathe rounded bg-hover", className ?? "h-4")}
    />
  );
}

/** Grey rows in the place of a list. */
export function SkeletonRows({ rows = 6 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading" className="flex flex-col gap-3 p-4">
      {Array.from({ length: rows }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows never move
        <Skeleton key={at} className={cx("h-5", at % 3 === 2 ? "w-2/3" : "w-full")} />
      ))}
    </div>
  );
}

/** A page or a lazy part is on its way. */
export function Loading({ label = "Loading" }: { label?: string }) {
  return (
    <div
      role="status"
      className="flex h-full min-h-32 items-center justify-center gap-2 text-muted"
    >
      <Spinner /> {label}…
    </div>
  );
}

/** The code and the request id of an error, to be quoted to an operator. */
export function ErrorFacts({ error }: { error: unknown }) {
  const { code, requestId } = errorParts(error);
  if (code === undefined && requestId === undefined) return null;
  return (
    <span className="flex flex-wrap items-center gap-x-2 font-mono text-2xs text-muted">
      {code}
      {requestId !== undefined && <CopyText text={requestId} label={`request ${requestId}`} />}
    </span>
  );
}

/** An error in the place of content, with a way to go on. */
export function ErrorNote(props: {
  error: unknown;
  onRetry?: () => void;
  /** The name of the button. */
  retry?: string;
  title?: string;
}) {
  const { error, onRetry, retry = "Try again", title = "This could not be loaded" } = props;
  return (
    <div role="alert" className="m-4 flex gap-3 rounded-md border border-line bg-danger-soft p-3">
      <CircleAlert size={16} className="mt-0.5 shrink-0 text-danger" aria-hidden="true" />
      <div className="flex min-w-0 flex-1 flex-col gap-1">
        <strong className="font-medium">{title}</strong>
        <span className="break-words text-muted">{errorParts(error).text}</span>
        <ErrorFacts error={error} />
      </div>
      {onRetry !== undefined && (
        <Button size="sm" onClick={onRetry} icon={<RotateCw size={14} />}>
          {retry}
        </Button>
      )}
    </div>
  );
}

/** A text of one tone that is not an error of a request. */
export function Note(props: { tone?: "info" | "warn" | "ok" | "danger"; children: ReactNode }) {
  const { tone = "info", children } = props;
  const tones = {
    info: "bg-info-soft text-ink",
    warn: "bg-warn-soft text-ink",
    ok: "bg-ok-soft text-ink",
    danger: "bg-danger-soft text-ink",
  };
  return <div className={cx("rounded-md px-3 py-2 text-sm", tones[tone])}>{children}</div>;
}
