/** One shell: an xterm.js screen, and the connection behind it that comes and goes. */

import { AuthError, NotFoundError, type Terminal as Shell } from "@pandastack/sdk";
import { FitAddon } from "@xterm/addon-fit";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { sandboxHandle } from "@/data/client";
import { copyText } from "@/ui";
import { MONO_FONT } from "../fonts";
import { afterCut, keepInput, waitBefore } from "./backoff";
import { terminalColours } from "./colours";
import { strictDocument, withStrictDocument } from "./strictStyles";

type RestState = "asleep" | "paused" | "gone";

export type ShellState =
  | { readonly kind: "connecting" }
  | { readonly kind: "open" }
  | { readonly kind: "asleep" }
  | { readonly kind: "paused" }
  | { readonly kind: "gone" }
  | { readonly kind: "waiting"; readonly until: number; readonly error: unknown }
  | { readonly kind: "ended"; readonly code: number }
  | { readonly kind: "refused"; readonly error: unknown };

const SCROLLBACK_LINES = 10_000;
// More than this is not handed to the screen before it has drawn what it has.
const PENDING_BYTES_MAX = 512 * 1024;
// A program without a prompt gets its input after this time.
const READY_MS_MAX = 1_500;

/** A shell of a sandbox. It lives as long as its tab, also while its screen is not shown. */
export class ShellSession {
  readonly #sandboxId: string;
  readonly #screen: Terminal;
  readonly #fit = new FitAddon();
  readonly #listeners = new Set<() => void>();
  readonly #closed = new AbortController();
  #state: ShellState;
  #shell: Shell | undefined;
  #kept = "";
  #tries = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #observer: ResizeObserver | undefined;
  #isConnecting = false;
  #hadShell = false;
  #isReady = false;

  constructor(sandboxId: string, status: string, theme: string) {
    this.#sandboxId = sandboxId;
    const then = afterCut(status);
    this.#state = then === "retry" ? { kind: "connecting" } : resting(then);
    this.#screen = new Terminal({
      documentOverride: strictDocument(),
      fontFamily: MONO_FONT,
      fontSize: 13,
      lineHeight: 1.2,
      cursorBlink: !window.matchMedia("(prefers-reduced-motion: reduce)").matches,
      scrollback: SCROLLBACK_LINES,
      minimumContrastRatio: 4.5,
      macOptionIsMeta: true,
      theme: terminalColours(theme),
    });
    this.#screen.loadAddon(this.#fit);
    this.#screen.loadAddon(new WebLinksAddon((_, link) => openLink(link)));
    this.#screen.onData((data) => this.#input(data));
    // Reports of the mouse: each character is one byte.
    this.#screen.onBinary((data) => this.#shell?.write(Uint8Array.from(data, byteOf)));
    this.#screen.onResize(({ rows, cols }) => this.#shell?.resize(rows, cols));
    this.#screen.attachCustomKeyEventHandler((event) => this.#ownKey(event));
  }

  get state(): ShellState {
    return this.#state;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  snapshot = (): ShellState => this.#state;

  /** Shows the screen in an element. Connects the first time, unless the sandbox sleeps. */
  attach(element: HTMLElement): () => void {
    const drawn = this.#screen.element;
    if (drawn === undefined) withStrictDocument(() => this.#screen.open(element));
    else element.append(drawn);
    this.#observer = new ResizeObserver(() => {
      if (element.clientHeight > 0) this.#fit.fit();
    });
    this.#observer.observe(element);
    this.#fit.fit();
    if (this.#state.kind === "connecting") void this.connect();
    return () => this.#observer?.disconnect();
  }

  focus(): void {
    this.#screen.focus();
  }

  setTheme(theme: string): void {
    this.#screen.options.theme = terminalColours(theme);
  }

  /** The sandbox has another state. One that woke by itself gets its shell back. */
  sandboxChanged(status: string): void {
    const { kind } = this.#state;
    const isWaiting = kind === "asleep" || kind === "paused";
    if (isWaiting && status === "running") void this.connect();
    if (kind === "open") return;
    const then = afterCut(status);
    if (then !== "retry" && kind !== "ended" && !this.#isConnecting) this.#rest(resting(then));
  }

  /** Opens a connection. This wakes a sleeping sandbox. */
  async connect(): Promise<void> {
    if (this.#isConnecting || this.#shell !== undefined || this.#closed.signal.aborted) return;
    this.#isConnecting = true;
    this.#rest({ kind: "connecting" });
    try {
      const { rows, cols } = this.#screen;
      const shell = await sandboxHandle(this.#sandboxId).terminal({
        rows,
        cols,
        signal: this.#closed.signal,
      });
      if (this.#closed.signal.aborted) return void shell.close();
      this.#opened(shell);
    } catch (error) {
      this.#isConnecting = false;
      await this.#cut(error);
    }
  }

  /** Ends the shell for good. */
  close(): void {
    this.#closed.abort();
    clearTimeout(this.#timer);
    this.#observer?.disconnect();
    void this.#shell?.close();
    this.#screen.dispose();
    this.#listeners.clear();
  }

  #opened(shell: Shell): void {
    this.#isConnecting = false;
    this.#tries = 0;
    if (this.#hadShell)
      this.#say("a new shell; what ran in the old one in the foreground has ended");
    this.#hadShell = true;
    this.#shell = shell;
    // The screen may have changed its size while the connection was made.
    shell.resize(this.#screen.rows, this.#screen.cols);
    this.#isReady = false;
    this.#timer = setTimeout(() => this.#ready(), READY_MS_MAX);
    this.#set({ kind: "open" });
    void this.#pump(shell);
  }

  /** Sends what was typed meanwhile. Before its first prompt a shell would show it twice. */
  #ready(): void {
    if (this.#isReady) return;
    this.#isReady = true;
    clearTimeout(this.#timer);
    const kept = this.#kept;
    this.#kept = "";
    if (kept !== "") this.#shell?.write(kept);
  }

  async #pump(shell: Shell): Promise<void> {
    let pending = 0;
    let drained: (() => void) | undefined;
    try {
      for await (const bytes of shell) {
        this.#ready();
        pending += bytes.byteLength;
        this.#screen.write(bytes, () => {
          pending -= bytes.byteLength;
          drained?.();
        });
        if (pending <= PENDING_BYTES_MAX) continue;
        await new Promise<void>((resolve) => {
          drained = resolve;
        });
        drained = undefined;
      }
      const code = await shell.exitCode;
      this.#shell = undefined;
      this.#say(`the shell ended with code ${code}; press Enter for a new one`);
      this.#hadShell = false;
      this.#set({ kind: "ended", code });
    } catch (error) {
      this.#shell = undefined;
      await this.#cut(error);
    }
  }

  async #cut(error: unknown): Promise<void> {
    if (this.#closed.signal.aborted) return;
    const status = await this.#status();
    if (this.#closed.signal.aborted) return;
    const then = afterCut(status);
    if (then !== "retry") {
      this.#rest(resting(then));
      if (then === "asleep" && this.#kept !== "") void this.connect();
      return;
    }
    if (error instanceof AuthError) return this.#rest({ kind: "refused", error });
    const wait = waitBefore(++this.#tries, Math.random());
    this.#rest({ kind: "waiting", until: Date.now() + wait, error });
    this.#timer = setTimeout(() => void this.connect(), wait);
  }

  async #status(): Promise<string> {
    try {
      return (await sandboxHandle(this.#sandboxId).refresh()).status;
    } catch (error) {
      return error instanceof NotFoundError ? "deleted" : "unknown";
    }
  }

  #input(data: string): void {
    if (this.#shell !== undefined) {
      if (this.#isReady) this.#shell.write(data);
      else this.#kept = keepInput(this.#kept, data);
      return;
    }
    const { kind } = this.#state;
    if (kind === "gone" || kind === "paused" || kind === "refused") return;
    // Typing starts a shell. What is typed until it is there, goes to it; except the first Enter.
    if (kind !== "ended") this.#kept = keepInput(this.#kept, data);
    else if (!data.includes("\r")) return;
    if (kind !== "connecting") void this.connect();
  }

  #ownKey(event: KeyboardEvent): boolean {
    if (event.type !== "keydown" || !event.ctrlKey || event.altKey || event.metaKey) return true;
    const key = event.key.toLowerCase();
    if (key === "c" && (event.shiftKey || this.#screen.hasSelection())) {
      void copyText(this.#screen.getSelection());
      if (!event.shiftKey) this.#screen.clearSelection();
      event.preventDefault();
      this.#screen.focus();
      return false;
    }
    // The browser pastes by itself, if the key is not taken.
    return !(key === "v" && event.shiftKey);
  }

  #say(text: string): void {
    this.#screen.write(`\r\n\x1b[90m[${text}]\x1b[0m\r\n`);
  }

  #rest(state: ShellState): void {
    clearTimeout(this.#timer);
    this.#set(state);
  }

  #set(state: ShellState): void {
    if (this.#state.kind === state.kind && state.kind !== "waiting") return;
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

function resting(kind: RestState): ShellState {
  return { kind };
}

function byteOf(character: string): number {
  return character.charCodeAt(0) & 0xff;
}

/** Output names links; only web pages are opened, and they learn nothing about this page. */
function openLink(link: string): void {
  if (/^https?:\/\//i.test(link)) window.open(link, "_blank", "noopener,noreferrer");
}
