/** Finds connections that are open on this side only. */

import type { SocketLink } from "./link.js";

/** Breaks a socket that is silent for too long, although it was asked for a sign of life. */
export class SilenceWatch {
  readonly #timer: ReturnType<typeof setInterval>;

  /**
   * After `silenceMs` without a sign of life the server is asked for one, and after as much again
   * the socket is broken. `ask` returns false if this socket cannot ask; then nothing is watched.
   */
  constructor(link: SocketLink, silenceMs: number, ask: () => boolean) {
    let last = Date.now();
    let asked = false;
    link.handlers.onAlive = () => {
      last = Date.now();
      asked = false;
    };
    this.#timer = setInterval(() => {
      const silence = Date.now() - last;
      if (silence > 2 * silenceMs && asked) {
        link.abort(`no sign of life for ${Math.round(silence / 100) / 10} s`);
        this.stop();
      } else if (silence >= silenceMs) asked = ask();
    }, silenceMs / 2);
    // A watch alone must not keep a program running.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
