import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Button, IconButton } from "./Button";
import { cx } from "./cx";
import { Input } from "./Input";
import { PortalRoot } from "./portal";
import { toast } from "./toast";

export interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  description?: ReactNode;
  children?: ReactNode;
  /** Buttons at the end. */
  footer?: ReactNode;
  size?: "sm" | "md" | "lg";
  /** `side`: a sheet at the right edge, for details. `drawer`: at the left edge, for navigation. */
  place?: "centre" | "side" | "drawer";
  /** A click beside it does not close it: for forms and for secrets that are shown once. */
  sticky?: boolean;
}

const WIDTHS = { sm: "max-w-md", md: "max-w-xl", lg: "max-w-3xl" };

/**
 * A modal dialog. It is the browser's own: focus stays inside, Escape closes it, and nothing behind
 * it can be used. It needs no style that the content security policy forbids.
 */
export function Dialog(props: DialogProps) {
  if (!props.open) return null;
  return <OpenDialog {...props} />;
}

function OpenDialog(props: DialogProps) {
  const { onClose, title, description, children, footer, size = "md", place = "centre" } = props;
  const ref = useRef<HTMLDialogElement>(null);
  const [root, setRoot] = useState<HTMLElement | null>(null);
  const id = useId();
  useEffect(() => {
    setRoot(ref.current);
    const dialog = ref.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) {
      dialog.showModal();
      firstControl(dialog).focus();
    }
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes a dialog
    <dialog
      ref={ref}
      aria-labelledby={id}
      tabIndex={-1}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current && props.sticky !== true) onClose();
      }}
      className={cx(
        "animate-appear border border-line bg-panel p-0 shadow-pop focus-visible:outline-none",
        place === "side" && "mt-0 mr-0 mb-0 ml-auto h-dvh max-h-dvh w-full max-w-2xl",
        place === "drawer" && "m-0 h-dvh max-h-dvh w-64",
        place === "centre" &&
          cx("m-auto w-[calc(100%-2rem)] rounded-lg sm:mt-[12vh]", WIDTHS[size]),
      )}
    >
      <PortalRoot value={root}>
        <div
          className={cx(
            "flex flex-col",
            place !== "centre" ? "h-full" : "max-h-[min(80vh,calc(100dvh-2rem))]",
          )}
        >
          <header className="flex items-start gap-3 px-5 pt-4 pb-3">
            <div className="min-w-0 flex-1">
              <h2 id={id} className="text-lg font-semibold break-words">
                {title}
              </h2>
              {description && <div className="mt-1 text-muted">{description}</div>}
            </div>
            <IconButton label="Close" icon={<X size={16} />} size="sm" onClick={onClose} />
          </header>
          <div data-body="" className="min-h-0 flex-1 overflow-y-auto px-5 pb-5">
            {children}
          </div>
          {footer && (
            <footer className="flex flex-wrap justify-end gap-2 border-t border-line px-5 py-3">
              {footer}
            </footer>
          )}
        </div>
      </PortalRoot>
    </dialog>
  );
}

/** Where the focus begins: a field, else the first button that is not the one that closes. */
function firstControl(dialog: HTMLElement): HTMLElement {
  const field = "input:not([type=hidden]):not([type=checkbox]), select, textarea, [role=log]";
  return (
    dialog.querySelector<HTMLElement>(`[data-body] :is(${field})`) ??
    dialog.querySelector<HTMLElement>("footer button, [data-body] a[href]") ??
    dialog
  );
}

export interface ConfirmDialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  /** What is lost, one line each. The reader must know before the click. */
  lost: ReactNode[];
  /** The line above, if nothing is lost for good. */
  lead?: string;
  /** The word on the button, such as `Delete 3 sandboxes`. */
  action: string;
  /** Text to be typed before the button works, for what cannot be made again. */
  typeToConfirm?: string;
  onConfirm: () => Promise<unknown> | unknown;
}

/** Asks before something is destroyed, and names what is lost. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  if (!props.open) return null;
  return <OpenConfirm {...props} />;
}

function OpenConfirm(props: ConfirmDialogProps) {
  const { onClose, title, lost, action, typeToConfirm, onConfirm } = props;
  const { lead = "This is lost for good:" } = props;
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const id = useId();
  const ready = typeToConfirm === undefined || typed === typeToConfirm;
  const confirm = async () => {
    setBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      toast.error(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="danger" disabled={!ready} loading={busy} onClick={() => void confirm()}>
            {action}
          </Button>
        </>
      }
    >
      <p className="font-medium">{lead}</p>
      <ul className="mt-1 list-disc pl-5 text-muted">
        {lost.map((line, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines never move
          <li key={at}>{line}</li>
        ))}
      </ul>
      {typeToConfirm !== undefined && (
        <div className="mt-4 flex flex-col gap-1">
          <label htmlFor={id} className="text-xs">
            Type <code className="font-mono font-semibold">{typeToConfirm}</code> to go on
          </label>
          <Input
            id={id}
            value={typed}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setTyped(event.target.value)}
          />
        </div>
      )}
    </Dialog>
  );
}
