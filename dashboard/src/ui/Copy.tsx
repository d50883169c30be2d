import { useEffect, useState } from "react";
import { shortId } from "@/data/format";
import { cx } from "./cx";

/** Copies text. Pages that are not secure have no clipboard interface, so there is a second way. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    area.className = "sr-only";
    // Inside an open dialog everything outside of it is inert.
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Whether something was copied just now. */
export function useCopied(): [boolean, (text: string) => void] {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return [copied, (text) => void copyText(text).then(setCopied)];
}

/** Text that is copied by a click. */
export function CopyText(props: {
  text: string;
  label?: string;
  /** The text is only read out, because it is already shown beside. */
  iconOnly?: boolean;
  className?: string;
}) {
  const { text, label = text, iconOnly = false, className } = props;
  const [copied, copy] = useCopied();
  return (
    <button
      type="button"
      onClick={(event) => {
        event.stopPropagation();
        event.preventDefault();
        copy(text);
      }}
      title={copied ? "Copied" : `Copy ${text}`}
      className={cx(
        "group/copy inline-flex max-w-full min-w-0 items-center gap-1 rounded font-mono text-xs text-muted",
        "hover:text-ink",
        className,
      )}
    >
      <span className="sr-only">Copy </span>
      <span className={iconOnly ? "sr-only" : "truncate"}>{label}</span>
      <svg
        width="12"
        height="12"
        viewBox="0 0 24 24"
        fill="none"
        stroke="currentColor"
        strokeWidth="2"
        aria-hidden="true"
        className={
          copied
            ? "shrink-0 text-ok"
            : "shrink-0 opacity-40 group-hover/copy:opacity-100 group-focus-visible/copy:opacity-100"
        }
      >
        <path d={copied ? "M20 6 9 17l-5-5" : "M8 8h14v14H8zM4 16H2V2h14v2"} />
      </svg>
      {copied && (
        <span className="sr-only" role="status">
          Copied
        </span>
      )}
    </button>
  );
}

/** An id: short, copied whole. */
export function CopyId(props: {
  id: string;
  full?: boolean;
  iconOnly?: boolean;
  className?: string;
}) {
  const { id, full = false, iconOnly = false, className } = props;
  return (
    <CopyText
      text={id}
      label={full ? id : shortId(id)}
      iconOnly={iconOnly}
      {...(className === undefined ? {} : { className })}
    />
  );
}
