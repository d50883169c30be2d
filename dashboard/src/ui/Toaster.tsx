import { CircleAlert, CircleCheck, Info, X } from "lucide-react";
import { useLayoutEffect, useRef, useSyncExternalStore } from "react";
import { Button, IconButton } from "./Button";
import { cx } from "./cx";
import { errorParts } from "./errors";
import { ErrorFacts } from "./Feedback";
import { toast } from "./toast";

const ICONS = {
  ok: <CircleCheck size={16} className="mt-0.5 shrink-0 text-ok" aria-hidden="true" />,
  info: <Info size={16} className="mt-0.5 shrink-0 text-info" aria-hidden="true" />,
  error: <CircleAlert size={16} className="mt-0.5 shrink-0 text-danger" aria-hidden="true" />,
};

/** The messages of `toast`. Once in the page. */
export function Toaster() {
  const messages = useSyncExternalStore(toast.subscribe, toast.get);
  const ref = useRef<HTMLElement>(null);
  // Shown again with every message, so that it lies above a dialog that was opened since.
  useLayoutEffect(() => {
    if (messages.length > 0) ref.current?.showPopover();
    return () => ref.current?.hidePopover();
  }, [messages]);
  return (
    <section
      ref={ref}
      popover="manual"
      aria-label="Messages"
      aria-live="polite"
      className="pointer-events-none fixed inset-auto right-0 bottom-0 m-0 w-full max-w-md flex-col gap-2 border-0 bg-transparent p-4 text-ink open:flex"
    >
      {messages.map(({ id, tone, title, error, action }) => (
        <div
          key={id}
          role={tone === "error" ? "alert" : "status"}
          data-toast={tone}
          className={cx(
            "pointer-events-auto flex animate-appear gap-2.5 rounded-md border bg-panel p-3 shadow-pop",
            tone === "error" ? "border-danger" : "border-line",
          )}
        >
          {ICONS[tone]}
          <div className="flex min-w-0 flex-1 flex-col gap-1">
            <span className="break-words">{title}</span>
            {error !== undefined && errorParts(error).text !== title && (
              <span className="break-words text-muted">{errorParts(error).text}</span>
            )}
            {error !== undefined && <ErrorFacts error={error} />}
            {action && (
              <Button
                size="sm"
                className="self-start"
                onClick={() => {
                  action.run();
                  toast.dismiss(id);
                }}
              >
                {action.label}
              </Button>
            )}
          </div>
          <IconButton
            label="Dismiss"
            size="sm"
            icon={<X size={14} />}
            onClick={() => toast.dismiss(id)}
          />
        </div>
      ))}
    </section>
  );
}
