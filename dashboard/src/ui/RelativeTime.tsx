import { useSyncExternalStore } from "react";
import { exactTime, relativeTime } from "@/data/format";

// One clock for the whole page. It runs only while a time is shown.
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const one of listeners) one();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The current time to the second; renders again when the text changes. */
export function useTimeText(text: (now: number) => string): string {
  return useSyncExternalStore(subscribe, () => text(Math.max(now, Date.now() - 1000)));
}

/** How long ago something was, with the exact time on hover. */
export function RelativeTime({ at, className }: { at: string | undefined; className?: string }) {
  const text = useTimeText((time) => relativeTime(at, time));
  if (at === undefined || at === "") return <span className="text-faint">never</span>;
  return (
    <time dateTime={at} title={exactTime(at)} className={className ?? "whitespace-nowrap"}>
      {text}
    </time>
  );
}
