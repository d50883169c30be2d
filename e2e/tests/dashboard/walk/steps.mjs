// The steps of a walk with their times, and its end.

import { join } from "node:path";

export class Steps {
  #began = Date.now();
  #folder;

  /** `folder` gets the picture of a step that fails. */
  constructor(folder) {
    this.#folder = folder;
  }

  /** Runs a step, and tells how long it took. A failure takes a last picture of its page. */
  async run(what, page, work) {
    const start = Date.now();
    try {
      const result = await work();
      console.log(`${this.#seconds().toFixed(1)} s: ${what} (${Date.now() - start} ms)`);
      return result;
    } catch (error) {
      await page?.screenshot({ path: join(this.#folder, "failed.png") }).catch(() => {});
      throw new Error(`${what}: ${error.stack ?? error}`, { cause: error });
    }
  }

  /** Tells everything that went wrong, and closes the browsers. */
  async end({ watch, album }, browsers) {
    const wrong = [...watch.complaints(process.exitCode === undefined), ...album.problems];
    for (const one of wrong) console.error(one);
    if (wrong.length > 0) process.exitCode = 1;
    await Promise.all(browsers.map((browser) => browser.close()));
    console.log(`${album.size} pages were seen in ${this.#seconds().toFixed(0)} s`);
  }

  #seconds() {
    return (Date.now() - this.#began) / 1000;
  }
}
