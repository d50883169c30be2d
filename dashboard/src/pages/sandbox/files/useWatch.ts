import type { FileChange } from "@pandastack/sdk";
import { useEffect, useRef, useState } from "react";
import { sandboxHandle } from "@/data/client";

const GATHER_MS = 150;
const RETRY_MS = 3_000;

/**
 * Watches a folder while the page is visible, and hands on changes, gathered for a moment. Returns
 * whether the watch stands.
 */
export function useWatch(
  sandboxId: string,
  folder: string,
  recursive: boolean,
  onChanges: (changes: readonly FileChange[]) => void,
): boolean {
  const [isLive, setIsLive] = useState(false);
  const latest = useRef(onChanges);
  latest.current = onChanges;
  useEffect(() => {
    let stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gathered: FileChange[] = [];
    let isFirst = true;
    const flush = (): void => {
      timer = undefined;
      latest.current(gathered);
      gathered = [];
    };
    const run = async (signal: AbortSignal): Promise<void> => {
      let deep = recursive;
      while (!signal.aborted) {
        try {
          const watch = await sandboxHandle(sandboxId).filesystem.watch(folder, {
            recursive: deep,
            signal,
          });
          setIsLive(true);
          // What happened while nobody watched is unknown.
          if (!isFirst) latest.current([{ type: "overflow", path: folder, isDir: true }]);
          isFirst = false;
          for await (const change of watch) {
            gathered.push(change);
            timer ??= setTimeout(flush, GATHER_MS);
          }
        } catch {
          // Too many folders, or the machine is away. The next try watches less.
          deep = false;
        }
        setIsLive(false);
        if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    };
    const follow = (): void => {
      stop.abort();
      stop = new AbortController();
      if (document.visibilityState === "visible") void run(stop.signal);
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", follow);
      setIsLive(false);
    };
  }, [sandboxId, folder, recursive]);
  return isLive;
}
