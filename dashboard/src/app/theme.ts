/** Light, dark, or as the system says. The choice is kept in the browser: it is no secret. */

import { useSyncExternalStore } from "react";

export type ThemeChoice = "light" | "dark" | "system";

const KEY = "pandastack-theme";
const listeners = new Set<() => void>();
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let choice = stored();

function stored(): ThemeChoice {
  try {
    const value = window.localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

/** Puts the theme on the page. Called before the first paint. */
export function applyTheme(): void {
  const isDark = choice === "dark" || (choice === "system" && dark.matches);
  document.documentElement.dataset["theme"] = isDark ? "dark" : "light";
  for (const listener of listeners) listener();
}

export function setTheme(next: ThemeChoice): void {
  choice = next;
  try {
    if (next === "system") window.localStorage.removeItem(KEY);
    else window.localStorage.setItem(KEY, next);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  applyTheme();
}

dark.addEventListener("change", applyTheme);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The chosen theme. */
export function useTheme(): ThemeChoice {
  return useSyncExternalStore(subscribe, () => choice);
}

/** The theme that is shown; for pictures that read colours themselves. */
export function useThemeVersion(): string {
  return useSyncExternalStore(
    subscribe,
    () => document.documentElement.dataset["theme"] ?? "light",
  );
}
