/** The event stream of a browser. One tab follows it and tells the others. Knows no page. */

import type { WorkspaceEvent } from "@pandastack/sdk";

export type StreamState = "connecting" | "live" | "down";

/** Who hears what the stream says. */
export interface StreamListener {
  event(event: WorkspaceEvent): void;
  state(state: StreamState): void;
  /** The server refuses the stream, so that there will be none. */
  refused(error: unknown): void;
}

/** Connects to the stream, and again after each cut. */
export type Follow = (options: {
  signal: AbortSignal;
  since: string | undefined;
  onConnection: (open: boolean) => void;
}) => AsyncIterable<WorkspaceEvent>;

/** A stream that a page uses. */
export interface PageStream {
  /** The page can be seen, or cannot any more. */
  setVisible(visible: boolean): void;
  stop(): void;
}

/** The part of `navigator.locks` that is used. */
export interface Locks {
  request(
    name: string,
    options: { signal?: AbortSignal; steal?: boolean },
    hold: () => Promise<void>,
  ): Promise<unknown>;
}

/** The part of a `BroadcastChannel` that is used. */
export interface Channel {
  postMessage(message: unknown): void;
  onmessage: ((message: MessageEvent) => void) | null;
  close(): void;
}

type Message =
  | { readonly type: "hello" }
  | { readonly type: "state"; readonly state: StreamState; readonly since?: string | undefined }
  | { readonly type: "event"; readonly event: WorkspaceEvent }
  | { readonly type: "refused" };

const HIDDEN_MS = 30_000;
const ASK_MS = 20_000;
const ANSWER_MS = 5_000;

/** Stands for events that nobody heard. */
const MISSED: WorkspaceEvent = { id: "", kind: "reset", ts: "", payload: {} };

interface Reading {
  readonly since: string | undefined;
  /** Something may have happened before, and there is no place to go on from. */
  readonly missed: boolean;
  readonly signal: AbortSignal;
}

/** Follows the stream until the signal aborts or the server refuses. */
async function read(follow: Follow, reading: Reading, listener: StreamListener): Promise<void> {
  const { since, signal } = reading;
  let missed = reading.missed;
  const onConnection = (open: boolean): void => {
    if (signal.aborted) return;
    listener.state(open ? "live" : "down");
    // Only now: what is read before the stream is open could be old again.
    if (open && missed) listener.event(MISSED);
    if (open) missed = false;
  };
  try {
    for await (const event of follow({ signal, since, onConnection })) {
      if (signal.aborted) return;
      listener.event(event);
    }
  } catch (error) {
    if (signal.aborted) return;
    listener.state("down");
    listener.refused(error);
  }
}

/**
 * A stream for one page alone, where tabs cannot share. A page that nobody sees gives it up after
 * a while: browsers allow six connections to a server for all their tabs together.
 */
export class OwnStream implements PageStream {
  readonly #follow: Follow;
  readonly #listener: StreamListener;
  #stop: AbortController | undefined;
  #hiding: ReturnType<typeof setTimeout> | undefined;
  #since: string | undefined;
  #wasOpen = false;

  constructor(follow: Follow, listener: StreamListener) {
    this.#follow = follow;
    this.#listener = listener;
    this.#open();
  }

  setVisible(visible: boolean): void {
    clearTimeout(this.#hiding);
    if (!visible) this.#hiding = setTimeout(() => this.stop(), HIDDEN_MS);
    else if (this.#stop === undefined) this.#open();
  }

  stop(): void {
    clearTimeout(this.#hiding);
    this.#stop?.abort();
    this.#stop = undefined;
    this.#listener.state("connecting");
  }

  #open(): void {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const since = this.#since;
    const reading = { since, signal, missed: this.#wasOpen && since === undefined };
    this.#wasOpen = true;
    void read(this.#follow, reading, {
      event: (event) => {
        if (event.id !== "") this.#since = event.id;
        this.#listener.event(event);
      },
      state: (state) => this.#listener.state(state),
      refused: (error) => this.#listener.refused(error),
    });
  }
}

/**
 * A stream for all tabs. The tab that has the lock follows it and passes everything on. When that
 * tab closes, the next one gets the lock and goes on after the last event. A tab that is seen asks
 * for a sign of life now and then: a browser may have stopped the one that leads.
 */
export class SharedStream implements PageStream {
  readonly #name: string;
  readonly #locks: Locks;
  readonly #channel: Channel;
  readonly #follow: Follow;
  readonly #listener: StreamListener;
  readonly #stop = new AbortController();
  /** Ends the wait for the lock, or the lead. */
  #turn = new AbortController();
  #leads = false;
  #heard = false;
  #state: StreamState = "connecting";
  #since: string | undefined;
  #patience: ReturnType<typeof setTimeout> | undefined;
  #asking: ReturnType<typeof setInterval> | undefined;

  constructor(
    name: string,
    doors: { locks: Locks; channel: Channel; follow: Follow },
    listener: StreamListener,
  ) {
    this.#name = name;
    this.#locks = doors.locks;
    this.#channel = doors.channel;
    this.#follow = doors.follow;
    this.#listener = listener;
    this.#channel.onmessage = ({ data }) => this.#message(data as Message);
    void this.#wait(false);
  }

  setVisible(visible: boolean): void {
    clearInterval(this.#asking);
    clearTimeout(this.#patience);
    this.#patience = undefined;
    if (!visible || this.#stop.signal.aborted) return;
    this.#asking = setInterval(() => this.#ask(), ASK_MS);
    this.#ask();
  }

  stop(): void {
    this.#stop.abort();
    this.#turn.abort();
    this.#leads = false;
    clearInterval(this.#asking);
    clearTimeout(this.#patience);
    this.#channel.onmessage = null;
    this.#channel.close();
    this.#listener.state("connecting");
  }

  /** Waits for the lock, or takes it from a tab that does not answer, and leads while it has it. */
  async #wait(steal: boolean): Promise<void> {
    this.#turn.abort();
    const turn = new AbortController();
    this.#turn = turn;
    const options = steal ? { steal } : { signal: turn.signal };
    try {
      await this.#locks.request(this.#name, options, () => this.#lead(turn.signal));
    } catch {
      // Given up, or another tab took it.
    }
    if (turn !== this.#turn || this.#stop.signal.aborted) return;
    turn.abort();
    this.#leads = false;
    void this.#wait(false);
  }

  async #lead(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    this.#leads = true;
    clearTimeout(this.#patience);
    this.#patience = undefined;
    const since = this.#since;
    await read(
      this.#follow,
      { since, signal, missed: this.#heard && since === undefined },
      {
        event: (event) => {
          this.#post({ type: "event", event });
          this.#hear(event);
        },
        state: (state) => {
          this.#state = state;
          this.#post({ type: "state", state, since: this.#since });
          this.#listener.state(state);
        },
        refused: (error) => {
          this.#post({ type: "refused" });
          this.#listener.refused(error);
        },
      },
    );
    // After a refusal the lock is kept: another tab would be refused too.
    if (!signal.aborted) await new Promise((done) => signal.addEventListener("abort", done));
  }

  #message(message: Message): void {
    if (message.type === "hello") {
      if (this.#leads) this.#post({ type: "state", state: this.#state, since: this.#since });
      return;
    }
    // A tab that lost the lead may not know it yet.
    if (this.#leads) return;
    this.#heard = true;
    clearTimeout(this.#patience);
    this.#patience = undefined;
    if (message.type === "event") this.#hear(message.event);
    else if (message.type === "refused") this.#listener.refused(undefined);
    else {
      this.#since ??= message.since;
      this.#listener.state(message.state);
    }
  }

  #ask(): void {
    if (this.#leads || this.#patience !== undefined) return;
    this.#patience = setTimeout(() => {
      this.#patience = undefined;
      if (!this.#leads) void this.#wait(true);
    }, ANSWER_MS);
    this.#post({ type: "hello" });
  }

  #hear(event: WorkspaceEvent): void {
    if (event.id !== "") this.#since = event.id;
    this.#listener.event(event);
  }

  #post(message: Message): void {
    if (!this.#stop.signal.aborted) this.#channel.postMessage(message);
  }
}
