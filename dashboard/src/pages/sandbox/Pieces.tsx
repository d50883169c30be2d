import { useEffect, useRef } from "react";
import { cx } from "@/ui";
import { withoutColours } from "./code/html";

export interface Piece {
  readonly stream: "stdout" | "stderr";
  readonly text: string;
}

const KEPT_CHARS = 400_000;

/** Adds output, and gives up the oldest beyond what a page can show. */
export function withPiece(pieces: readonly Piece[], piece: Piece): readonly Piece[] {
  const last = pieces.at(-1);
  const next =
    last?.stream === piece.stream && last.text.length < 8_000
      ? [...pieces.slice(0, -1), { ...last, text: last.text + piece.text }]
      : [...pieces, piece];
  let size = next.reduce((sum, { text }) => sum + text.length, 0);
  let from = 0;
  while (size > KEPT_CHARS && from < next.length - 1) {
    size -= next[from]?.text.length ?? 0;
    from += 1;
  }
  return from === 0 ? next : next.slice(from);
}

/** Output of a program, both streams in their order. Stays at the end while it grows. */
export function Pieces(props: {
  pieces: readonly Piece[];
  follow?: boolean;
  label: string;
  className?: string;
}) {
  const { pieces, follow = false, label, className } = props;
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new output moves the view
  useEffect(() => {
    const element = box.current;
    if (follow && element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [pieces, follow]);
  return (
    <pre
      role="log"
      ref={box}
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
      className={cx(
        "overflow-auto bg-sunken px-3 py-2 font-mono text-xs leading-5 break-words whitespace-pre-wrap",
        className ?? "max-h-96",
      )}
    >
      {pieces.map(({ stream, text }, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: output only grows at its end
        <span key={at} className={stream === "stderr" ? "text-warn" : undefined}>
          {withoutColours(text)}
        </span>
      ))}
    </pre>
  );
}
