import { cx } from "./cx";

const IS_MAC = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.userAgent);

const NAMES: Record<string, string> = {
  mod: IS_MAC ? "⌘" : "Ctrl",
  shift: IS_MAC ? "⇧" : "Shift",
  enter: "↵",
  escape: "Esc",
  up: "↑",
  down: "↓",
};

/** The keys of a shortcut, such as `g s` or `mod+k`. */
export function Kbd({ keys, inverse = false }: { keys: string; inverse?: boolean }) {
  const parts = keys
    .split(/[ +]/)
    .map((key) => NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key));
  return (
    <span className="inline-flex gap-0.5">
      {parts.map((part, at) => (
        <kbd
          // biome-ignore lint/suspicious/noArrayIndexKey: the keys of a shortcut never move
          key={at}
          className={cx(
            "min-w-4 rounded border px-1 text-center font-sans text-2xs leading-4",
            inverse ? "border-transparent bg-bg/20 text-bg" : "border-line bg-sunken text-muted",
          )}
        >
          {part}
        </kbd>
      ))}
    </span>
  );
}
