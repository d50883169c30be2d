/** Compares pressed keys with shortcuts. Pure. */

export interface KeyPress {
  readonly key: string;
  /** Ctrl, or the command key of a Mac. */
  readonly mod: boolean;
  readonly shift: boolean;
  readonly alt: boolean;
}

/** Whether the last presses are a shortcut such as `?`, `mod+k` or `g s`. */
export function matchHotkey(keys: string, presses: readonly KeyPress[]): boolean {
  const steps = keys.split(" ");
  if (presses.length < steps.length) return false;
  const last = presses.slice(-steps.length);
  return steps.every((step, at) => {
    const press = last[at];
    return press !== undefined && matchStep(step, press);
  });
}

function matchStep(step: string, press: KeyPress): boolean {
  const parts = step.split("+");
  const key = parts.pop() ?? "";
  const wantsMod = parts.includes("mod");
  const wantsShift = parts.includes("shift");
  if (press.mod !== wantsMod || press.alt) return false;
  if (press.key.toLowerCase() !== key.toLowerCase()) return false;
  // `?` needs shift on many keyboards, so shift counts only for letters and named keys.
  const isLetter = /^[a-z]$/i.test(key) || key.length > 1;
  return !isLetter || press.shift === wantsShift;
}
