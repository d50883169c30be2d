/** The colours of the terminal in both themes. */

import type { ITheme } from "@xterm/xterm";

const LIGHT: ITheme = {
  background: "#ffffff",
  foreground: "#1c211d",
  cursor: "#1f7a45",
  cursorAccent: "#ffffff",
  selectionBackground: "#bfe3cb",
  black: "#1c211d",
  red: "#b3261e",
  green: "#1b7a3d",
  yellow: "#8a6100",
  blue: "#2459b3",
  magenta: "#8a3b9c",
  cyan: "#0f7580",
  white: "#5d655f",
  brightBlack: "#6b736d",
  brightRed: "#c8362d",
  brightGreen: "#22884a",
  brightYellow: "#936a0a",
  brightBlue: "#3069c7",
  brightMagenta: "#9a4bad",
  brightCyan: "#17808c",
  brightWhite: "#3c433e",
};

const DARK: ITheme = {
  background: "#0f1311",
  foreground: "#e6eae7",
  cursor: "#5fd38d",
  cursorAccent: "#0f1311",
  selectionBackground: "#2b4a38",
  black: "#2a302c",
  red: "#f2827a",
  green: "#62cf8c",
  yellow: "#e0b458",
  blue: "#83aef5",
  magenta: "#d094e0",
  cyan: "#62c8d4",
  white: "#d3d9d5",
  brightBlack: "#8a938d",
  brightRed: "#ff9f97",
  brightGreen: "#85e3a8",
  brightYellow: "#f2cd7e",
  brightBlue: "#a6c6ff",
  brightMagenta: "#e3b2f0",
  brightCyan: "#8adfe9",
  brightWhite: "#f5f8f6",
};

export function terminalColours(theme: string): ITheme {
  return theme === "dark" ? DARK : LIGHT;
}
