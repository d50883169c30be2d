/** Commands that were run from this page. Kept while the page lives. */

import { CommandCancelled, CommandError, type RunningCommand } from "@pandastack/sdk";
import { sandboxHandle } from "@/data/client";
import { type Piece, withPiece } from "../Pieces";
import { loadHistory, type PastCommand, saveHistory } from "./history";

export interface Run extends PastCommand {
  readonly id: number;
  readonly state: "running" | "done" | "stopped" | "failed" | "earlier";
  readonly pieces: readonly Piece[];
  readonly error?: unknown;
}

const RUNS_MAX = 100;

export class Runs {
  readonly #sandboxId: string;
  readonly #listeners = new Set<() => void>();
  readonly #commands = new Map<number, RunningCommand>();
  #list: readonly Run[];
  #next = 1;

  constructor(sandboxId: string) {
    this.#sandboxId = sandboxId;
    this.#list = loadHistory(sessionStorage, sandboxId).map(
      (past): Run => ({ ...past, id: -this.#next++, state: "earlier", pieces: [] }),
    );
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get = (): readonly Run[] => this.#list;

  start(command: string, options: { cwd: string; timeoutSeconds: number }): void {
    const id = this.#next++;
    const { cwd, timeoutSeconds } = options;
    const at = new Date().toISOString();
    this.#set(
      [{ id, command, cwd, at, state: "running" as const, pieces: [] }, ...this.#list].slice(
        0,
        RUNS_MAX,
      ),
    );
    const take = (stream: Piece["stream"]) => (text: string) => {
      this.#patch(id, (run) => ({ pieces: withPiece(run.pieces, { stream, text }) }));
    };
    const running = sandboxHandle(this.#sandboxId).stream(command, {
      onStdout: take("stdout"),
      onStderr: take("stderr"),
      ...(cwd === "" ? {} : { cwd }),
      ...(timeoutSeconds === 0 ? {} : { timeoutSeconds }),
    });
    this.#commands.set(id, running);
    void this.#end(id, running, Date.now());
  }

  stop(id: number): void {
    void this.#commands.get(id)?.cancel();
  }

  clear(): void {
    this.#set(this.#list.filter(({ state }) => state === "running"));
  }

  async #end(id: number, running: RunningCommand, started: number): Promise<void> {
    try {
      const { exitCode } = await running.wait();
      this.#patch(id, () => ({ state: "done", exitCode, durationMs: Date.now() - started }));
    } catch (error) {
      const isStopped = error instanceof CommandCancelled;
      const isExit = error instanceof CommandError;
      this.#patch(id, () => ({
        state: isStopped ? "stopped" : "failed",
        durationMs: Date.now() - started,
        ...(isStopped || isExit ? {} : { error }),
      }));
    } finally {
      this.#commands.delete(id);
      saveHistory(sessionStorage, this.#sandboxId, this.#list.map(pastOf));
    }
  }

  #patch(id: number, change: (run: Run) => Partial<Run>): void {
    this.#set(this.#list.map((run) => (run.id === id ? { ...run, ...change(run) } : run)));
  }

  #set(list: readonly Run[]): void {
    this.#list = list;
    if (list.length === 0) saveHistory(sessionStorage, this.#sandboxId, []);
    for (const listener of this.#listeners) listener();
  }
}

function pastOf({ command, cwd, at, exitCode, durationMs }: Run): PastCommand {
  return {
    command,
    cwd,
    at,
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(durationMs === undefined ? {} : { durationMs }),
  };
}

const all = new Map<string, Runs>();

/** The commands of a sandbox. */
export function runsOf(sandboxId: string): Runs {
  const known = all.get(sandboxId);
  if (known !== undefined) return known;
  const made = new Runs(sandboxId);
  all.set(sandboxId, made);
  return made;
}
