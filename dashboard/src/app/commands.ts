/** What the command palette offers besides the pages: actions of the shell and of the open page. */

import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Command {
  readonly id: string;
  readonly title: string;
  /** Such as `Sandbox` or `Theme`; groups the list. */
  readonly group: string;
  readonly words?: string;
  readonly shortcut?: string;
  readonly run: () => void;
}

let commands: readonly Command[] = [];
const listeners = new Set<() => void>();

function set(next: readonly Command[]): void {
  commands = next;
  for (const listener of listeners) listener();
}

/** Offers commands while the component is shown. `list` may be a new array on every render. */
export function useCommands(list: readonly Command[]): void {
  const latest = useRef(list);
  latest.current = list;
  const shape = list.map(({ id, title }) => `${id}\n${title}`).join("\n\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` names what is offered
  useEffect(() => {
    const own = latest.current.map((command) => ({
      ...command,
      run: () => latest.current.find(({ id }) => id === command.id)?.run(),
    }));
    set([...commands, ...own]);
    return () => set(commands.filter((one) => !own.includes(one as (typeof own)[number])));
  }, [shape]);
}

/** All commands that are offered now. */
export function useAllCommands(): readonly Command[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => commands,
  );
}
