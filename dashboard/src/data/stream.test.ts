import type { WorkspaceEvent } from "@pandastack/sdk";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Channel, type Follow, type Locks, OwnStream, SharedStream } from "./stream";

/** The locks of one browser. */
class FakeLocks implements Locks {
  #queue: { hold: () => Promise<void>; done: () => void }[] = [];
  #lost: (() => void) | undefined;

  request(
    _name: string,
    { signal, steal }: { signal?: AbortSignal; steal?: boolean },
    hold: () => Promise<void>,
  ): Promise<unknown> {
    return new Promise<void>((resolve, reject) => {
      const entry = { hold: () => this.#run(hold, resolve, reject), done: resolve };
      signal?.addEventListener("abort", () => {
        if (!this.#queue.includes(entry)) return;
        this.#queue = this.#queue.filter((one) => one !== entry);
        reject(signal.reason);
      });
      if (steal) {
        this.#lost?.();
        this.#lost = undefined;
        this.#queue.unshift(entry);
      } else this.#queue.push(entry);
      this.#next();
    });
  }

  #next(): void {
    if (this.#lost !== undefined) return;
    void this.#queue.shift()?.hold();
  }

  async #run(hold: () => Promise<void>, resolve: () => void, reject: (error: Error) => void) {
    const lost = (): void => reject(new Error("stolen"));
    this.#lost = lost;
    await hold();
    resolve();
    if (this.#lost !== lost) return;
    this.#lost = undefined;
    this.#next();
  }
}

/** The channel between the tabs of one browser. */
class FakeChannel implements Channel {
  static all = new Set<FakeChannel>();
  onmessage: ((message: MessageEvent) => void) | null = null;
  /** A tab that the browser has stopped hears nothing. */
  frozen = false;

  constructor() {
    FakeChannel.all.add(this);
  }

  postMessage(data: unknown): void {
    if (this.frozen) return;
    for (const other of FakeChannel.all) {
      if (other !== this && !other.frozen)
        queueMicrotask(() => other.onmessage?.({ data } as MessageEvent));
    }
  }

  close(): void {
    FakeChannel.all.delete(this);
  }
}

/** The server: it sends events to everybody who follows. */
class FakeServer {
  readonly followers: { since: string | undefined; push: (event: WorkspaceEvent) => void }[] = [];
  refusal: Error | undefined;

  readonly follow: Follow = ({ signal, since, onConnection }) =>
    this.#follow(signal, since, onConnection);

  send(id: string): void {
    for (const { push } of this.followers)
      push({ id, kind: "sandbox.paused", ts: "", payload: {} });
  }

  async *#follow(
    signal: AbortSignal,
    since: string | undefined,
    onConnection: (open: boolean) => void,
  ): AsyncGenerator<WorkspaceEvent> {
    if (this.refusal !== undefined) throw this.refusal;
    const events: WorkspaceEvent[] = [];
    let wake = (): void => undefined;
    const push = (event: WorkspaceEvent): void => {
      events.push(event);
      wake();
    };
    const entry = { since, push };
    this.followers.push(entry);
    signal.addEventListener("abort", () => {
      this.followers.splice(this.followers.indexOf(entry), 1);
      wake();
    });
    onConnection(true);
    while (!signal.aborted) {
      yield* events.splice(0);
      await new Promise<void>((done) => {
        wake = done;
      });
    }
  }
}

function listen() {
  const heard: string[] = [];
  const states: string[] = [];
  const refused = vi.fn();
  return {
    heard,
    states,
    refused,
    event: ({ id, kind }: WorkspaceEvent) => void heard.push(id || kind),
    state: (state: string) => void states.push(state),
  };
}

let server: FakeServer;
let locks: FakeLocks;

function tab() {
  const listener = listen();
  const channel = new FakeChannel();
  const stream = new SharedStream("x", { locks, channel, follow: server.follow }, listener);
  stream.setVisible(true);
  return { ...listener, channel, stream };
}

async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeChannel.all.clear();
  server = new FakeServer();
  locks = new FakeLocks();
});

afterEach(() => {
  vi.useRealTimers();
});

it("many tabs share one stream, and all hear every event once", async () => {
  const tabs = [tab(), tab(), tab()];
  await settle(60_000);
  expect(server.followers).toHaveLength(1);
  server.send("e1");
  await settle();
  for (const { heard, states } of tabs) {
    expect(heard).toEqual(["e1"]);
    expect(states.at(-1)).toBe("live");
  }
});

it("when the tab that leads closes, another one goes on after the last event", async () => {
  const [first, second] = [tab(), tab()];
  await settle();
  server.send("e1");
  await settle();
  first.stream.stop();
  await settle();
  expect(server.followers.map(({ since }) => since)).toEqual(["e1"]);
  server.send("e2");
  await settle();
  expect(second.heard).toEqual(["e1", "e2"]);
  expect(first.heard).toEqual(["e1"]);
});

it("a tab that takes over without knowing a place reads everything again", async () => {
  const [first, second] = [tab(), tab()];
  await settle();
  first.stream.stop();
  await settle();
  expect(second.heard).toEqual(["reset"]);
});

it("a tab that is seen takes the lead from one that the browser has stopped", async () => {
  const [first, second] = [tab(), tab()];
  await settle();
  first.channel.frozen = true;
  await settle(30_000);
  expect(server.followers).toHaveLength(1);
  server.send("e1");
  await settle();
  expect(second.heard.at(-1)).toBe("e1");
  // The first one lives again, and follows.
  first.channel.frozen = false;
  server.send("e2");
  await settle(60_000);
  expect(first.heard).toEqual(["e2"]);
  expect(server.followers).toHaveLength(1);
});

it("a refusal is told to every tab", async () => {
  server.refusal = new Error("the session has ended");
  const tabs = [tab(), tab()];
  await settle(1_000);
  for (const { refused, states } of tabs) {
    expect(refused).toHaveBeenCalled();
    expect(states.at(-1)).toBe("down");
  }
});

it("no tab follows after all have stopped", async () => {
  const tabs = [tab(), tab()];
  await settle();
  for (const { stream } of tabs) stream.stop();
  await settle(60_000);
  expect(server.followers).toEqual([]);
});

it("a page alone gives its stream up while hidden, and goes on after its last event", async () => {
  const listener = listen();
  const stream = new OwnStream(server.follow, listener);
  await settle();
  server.send("e1");
  await settle();
  stream.setVisible(false);
  await settle(31_000);
  expect(server.followers).toEqual([]);
  stream.setVisible(true);
  await settle();
  expect(server.followers.map(({ since }) => since)).toEqual(["e1"]);
  expect(listener.heard).toEqual(["e1"]);
  stream.stop();
});
