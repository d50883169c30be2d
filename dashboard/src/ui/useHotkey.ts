import { useEffect, useRef } from "react";
import { type KeyPress, matchHotkey } from "./hotkeys";

interface Binding {
  readonly keys: string;
  readonly run: (event: KeyboardEvent) => void;
  readonly always: boolean;
}

// The newest binding of the same keys wins, so a page overrides the shell.
let bindings: readonly Binding[] = [];
let pressed: readonly KeyPress[] = [];
let pressedAt = 0;

const SEQUENCE_MS = 1000;

function onKeyDown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  if (["Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
  const typing = isTyping(event.target);
  const inDialog = document.querySelector("dialog[open]") !== null;
  const now = Date.now();
  const before = now - pressedAt < SEQUENCE_MS ? pressed : [];
  const press: KeyPress = {
    key: event.key,
    mod: event.ctrlKey || event.metaKey,
    shift: event.shiftKey,
    alt: event.altKey,
  };
  const presses = [...before, press].slice(-2);
  const usable = bindings.filter(({ always }) => always || !(typing || inDialog));
  const found = usable.findLast(({ keys }) => matchHotkey(keys, presses));
  pressed = found === undefined && !typing ? presses : [];
  pressedAt = now;
  if (found === undefined) return;
  event.preventDefault();
  found.run(event);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest("[data-keys='own']") !== null) return true;
  if (target instanceof HTMLInputElement) {
    return !["checkbox", "radio", "button", "submit"].includes(target.type);
  }
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

/**
 * Binds keys while the component is shown: `?`, `mod+k`, `shift+enter`, or a sequence such as `g s`.
 * Without `always` they do nothing while somebody types or a dialog is open. An element with
 * `data-keys="own"` (a terminal, an editor) keeps all its keys.
 */
export function useHotkey(
  keys: string,
  run: (event: KeyboardEvent) => void,
  options: { always?: boolean; enabled?: boolean } = {},
): void {
  const { always = false, enabled = true } = options;
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (!enabled) return;
    const binding: Binding = { keys, always, run: (event) => latest.current(event) };
    if (bindings.length === 0) document.addEventListener("keydown", onKeyDown);
    bindings = [...bindings, binding];
    return () => {
      bindings = bindings.filter((one) => one !== binding);
      if (bindings.length === 0) document.removeEventListener("keydown", onKeyDown);
    };
  }, [keys, always, enabled]);
}
