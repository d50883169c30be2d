/** The cells of a notebook and the kernel that runs them. Kept while the page lives. */

import type { CodeContext, Execution } from "@pandastack/sdk";
import { sandboxHandle } from "@/data/client";
import { withCellAfter, withoutCell } from "./cells";

export interface Cell {
  readonly id: number;
  readonly code: string;
  readonly state: "idle" | "waiting" | "running" | "done" | "stopped" | "failed";
  readonly number?: number | undefined;
  readonly result?: Execution | undefined;
  /** Why the cell could not run at all. An exception of its code is in `result`. */
  readonly error?: unknown;
}

export interface NotebookState {
  readonly cells: readonly Cell[];
  readonly language: string;
  readonly kernel: string | undefined;
  readonly kernelState: "none" | "starting" | "ready";
}

const CELL_SECONDS = 300;

/** The notebook of one sandbox. */
export class Notebook {
  readonly #sandboxId: string;
  readonly #listeners = new Set<() => void>();
  #state: NotebookState;
  #context: CodeContext | undefined;
  #nextId = 2;
  #nextNumber = 1;
  #stop: AbortController | undefined;
  #isRunning = false;

  constructor(sandboxId: string) {
    this.#sandboxId = sandboxId;
    this.#state = {
      cells: [{ id: 1, code: "", state: "idle" }],
      language: "python",
      kernel: undefined,
      kernelState: "none",
    };
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get = (): NotebookState => this.#state;

  edit(id: number, code: string): void {
    this.#cell(id, { code });
  }

  /** Adds an empty cell after another one, or at the end. Returns its id. */
  add(after?: number): number {
    const id = this.#nextId++;
    const cell: Cell = { id, code: "", state: "idle" };
    this.#set({ cells: withCellAfter(this.#state.cells, cell, after) });
    return id;
  }

  remove(id: number): void {
    this.#set({ cells: withoutCell(this.#state.cells, id) });
  }

  clearResults(): void {
    const cells = this.#state.cells.map(({ id, code }): Cell => ({ id, code, state: "idle" }));
    this.#set({ cells });
  }

  /** Runs a cell after those that wait already. */
  run(id: number): void {
    this.#cell(id, { state: "waiting", result: undefined, error: undefined });
    void this.#work();
  }

  runAll(): void {
    for (const { id, code } of this.#state.cells) {
      if (code.trim() !== "")
        this.#cell(id, { state: "waiting", result: undefined, error: undefined });
    }
    void this.#work();
  }

  /** Interrupts the cell that runs. Those that wait are not run. */
  interrupt(): void {
    for (const { id, state } of this.#state.cells)
      if (state === "waiting") this.#cell(id, { state: "idle" });
    this.#stop?.abort();
  }

  /** Ends the kernel: the variables are gone. The next cell starts a new one. */
  async restart(language = this.#state.language): Promise<void> {
    this.interrupt();
    const old = this.#context;
    this.#context = undefined;
    this.#nextNumber = 1;
    this.#set({ kernel: undefined, kernelState: "none", language });
    await old?.close();
  }

  /** Uses a kernel that the sandbox already has, such as one from before a fork. */
  use(context: CodeContext): void {
    this.#context = context;
    this.#set({ kernel: context.id, kernelState: "ready", language: context.language });
  }

  async #work(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      for (;;) {
        const next = this.#state.cells.find(({ state }) => state === "waiting");
        if (next === undefined) return;
        const went = await this.#runOne(next);
        // Later cells depend on earlier ones, so they do not run after a failure.
        if (!went) this.#giveUpWaiting();
      }
    } finally {
      this.#isRunning = false;
    }
  }

  async #runOne({ id, code }: Cell): Promise<boolean> {
    const stop = new AbortController();
    this.#stop = stop;
    this.#cell(id, { state: "running" });
    try {
      const context = await this.#kernel(stop.signal);
      const options = { signal: stop.signal, timeoutSeconds: CELL_SECONDS };
      const result = await context.runCode(code, options);
      const number = this.#nextNumber++;
      this.#cell(id, { state: result.error ? "failed" : "done", result, number });
      return result.error === undefined;
    } catch (error) {
      if (stop.signal.aborted) this.#cell(id, { state: "stopped" });
      else {
        this.#cell(id, { state: "failed", error });
        // The kernel may be gone; the next cell asks for one again.
        this.#context = undefined;
        this.#set({ kernel: undefined, kernelState: "none" });
      }
      return false;
    } finally {
      this.#stop = undefined;
    }
  }

  async #kernel(signal: AbortSignal): Promise<CodeContext> {
    if (this.#context !== undefined) return this.#context;
    this.#set({ kernelState: "starting" });
    try {
      const sandbox = sandboxHandle(this.#sandboxId);
      this.#context = await sandbox.createCodeContext(this.#state.language, { signal });
      this.#set({ kernel: this.#context.id, kernelState: "ready" });
      return this.#context;
    } catch (error) {
      this.#set({ kernelState: "none" });
      throw error;
    }
  }

  #giveUpWaiting(): void {
    for (const { id, state } of this.#state.cells)
      if (state === "waiting") this.#cell(id, { state: "idle" });
  }

  #cell(id: number, fields: Partial<Cell>): void {
    this.#set({
      cells: this.#state.cells.map((one) => (one.id === id ? { ...one, ...fields } : one)),
    });
  }

  #set(fields: Partial<NotebookState>): void {
    this.#state = { ...this.#state, ...fields };
    for (const listener of this.#listeners) listener();
  }
}

const notebooks = new Map<string, Notebook>();
const NOTEBOOKS_MAX = 20;

/** The notebook of a sandbox. Only in memory: code may name secrets. */
export function notebookOf(sandboxId: string): Notebook {
  let notebook = notebooks.get(sandboxId);
  if (notebook === undefined) {
    notebook = new Notebook(sandboxId);
    notebooks.set(sandboxId, notebook);
    const oldest = notebooks.keys().next().value;
    if (notebooks.size > NOTEBOOKS_MAX && oldest !== undefined) notebooks.delete(oldest);
  }
  return notebook;
}
