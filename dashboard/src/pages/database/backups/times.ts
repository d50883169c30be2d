/** Times in a restore window, to the second. Pure. */

import type { models } from "@pandastack/sdk";
import { duration } from "@/data/format";

/** The times that can be restored, in seconds since 1970. */
export interface Span {
  readonly earliest: number;
  readonly latest: number;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The whole seconds of a window. Undefined if it has none. */
export function spanOf(window: models.RestoreWindow | null | undefined): Span | undefined {
  if (!window) return undefined;
  const earliest = Math.ceil(Date.parse(window.earliest) / 1000);
  const latest = Math.floor(Date.parse(window.latest) / 1000);
  return earliest <= latest ? { earliest, latest } : undefined;
}

export function isWithin(at: number, { earliest, latest }: Span): boolean {
  return at >= earliest && at <= latest;
}

export function clampTo(at: number, { earliest, latest }: Span): number {
  return Math.min(latest, Math.max(earliest, at));
}

/** Where a time is on the track, from 0 to 1. */
export function shareOf(at: number, { earliest, latest }: Span): number {
  return latest === earliest
    ? 1
    : (clampTo(at, { earliest, latest }) - earliest) / (latest - earliest);
}

/** `2 h 13 min ago`; the clock of the server may be ahead of ours. */
export function agoText(at: number, nowMs: number): string {
  const seconds = nowMs / 1000 - at;
  return seconds < 1 ? "now" : `${duration(seconds)} ago`;
}

/** How far a key moves the slider, in seconds. Undefined if it is not for the slider. */
export function keyStep(key: string, modifier: "none" | "shift"): number | undefined {
  const arrow = modifier === "shift" ? 1 : MINUTE;
  switch (key) {
    case "ArrowLeft":
    case "ArrowDown":
      return -arrow;
    case "ArrowRight":
    case "ArrowUp":
      return arrow;
    case "PageDown":
      return -HOUR;
    case "PageUp":
      return HOUR;
    default:
      return undefined;
  }
}

/** Times that people mean most, as far as the window has them. */
export function quickTimes(span: Span, nowMs: number): { label: string; at: number }[] {
  const now = Math.floor(nowMs / 1000);
  const all = [
    { label: "10 min ago", at: now - 10 * MINUTE },
    { label: "1 h ago", at: now - HOUR },
    { label: "1 d ago", at: now - DAY },
    { label: "1 week ago", at: now - 7 * DAY },
  ];
  return all.filter(({ at }) => isWithin(at, span));
}

/** The value of a field for local time: `2026-11-18T11:16:07`. */
export function localText(at: number): string {
  const date = new Date(at * 1000);
  const two = (value: number): string => String(value).padStart(2, "0");
  // A year of four digits is typed digit by digit: 0002, 0020, 0202, 2026.
  const year = String(date.getFullYear()).padStart(4, "0");
  const day = [year, two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day}T${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")}`;
}

/** The time that such a field means. Undefined if it is not complete. */
export function ofLocalText(text: string): number | undefined {
  // Without a zone it is local time; a date alone would be read as UTC.
  const at = text.includes("T") ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.floor(at / 1000);
}

/** As the API wants it: `2026-11-18T11:16:07Z`. */
export function rfc3339(at: number): string {
  return new Date(at * 1000).toISOString().replace(".000Z", "Z");
}
