// Pictures of every page in light, dark and narrow, and what axe-core finds on it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { until } from "./wait.mjs";

export const WIDE = { width: 1280, height: 800 };
export const NARROW = { width: 380, height: 800 };

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export class Album {
  #folder;
  #problems = [];
  #names = new Set();

  constructor(folder) {
    this.#folder = folder;
  }

  /** What axe-core found, and pages that scroll sideways. */
  get problems() {
    return this.#problems;
  }

  get size() {
    return this.#names.size;
  }

  /** Takes a page as it is now: light, dark and narrow. It is wide and light again afterwards. */
  async take(page, name) {
    if (this.#names.has(name)) throw new Error(`there is a picture ${name} already`);
    this.#names.add(name);
    await settled(page);
    await this.#shoot(page, `${name}-light`);
    await this.#check(page, `${name}, light`, {});
    await page.emulateMedia({ colorScheme: "dark" });
    await page.locator("html[data-theme=dark]").waitFor();
    await settled(page);
    await this.#shoot(page, `${name}-dark`);
    await this.#check(page, `${name}, dark`, { runOnly: ["color-contrast"] });
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize(NARROW);
    await settled(page);
    await this.#shoot(page, `${name}-narrow`);
    await this.#fits(page, name);
    await page.setViewportSize(WIDE);
  }

  async #shoot(page, name) {
    await page.screenshot({ path: join(this.#folder, `${name}.png`), animations: "disabled" });
  }

  /** Serious and critical violations. */
  async #check(page, name, options) {
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
    const violations = await page.evaluate(async (chosen) => {
      const { violations } = await globalThis.axe.run(document, {
        ...chosen,
        resultTypes: ["violations"],
      });
      return violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(
          ({ id, impact, nodes }) =>
            `${impact} ${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))}`,
        );
    }, options);
    for (const one of violations) this.#problems.push(`axe on ${name}: ${one}`);
  }

  async #fits(page, name) {
    const wide = await page.evaluate(() =>
      [
        document.documentElement,
        ...document.querySelectorAll("#content, dialog[open], dialog[open] [data-body]"),
      ]
        .filter((one) => one.scrollWidth > one.clientWidth + 1)
        .map(
          (one) =>
            `${one.tagName}${one.id && `#${one.id}`} ${one.scrollWidth} > ${one.clientWidth}`,
        ),
    );
    if (wide.length > 0)
      this.#problems.push(`${name} scrolls sideways at ${NARROW.width} px: ${wide.join(", ")}`);
  }
}

/** Waits until the page shows what it loads. */
async function settled(page) {
  const isStill = () =>
    page.evaluate(() => {
      const loading = [
        ...document.querySelectorAll(".animate-breathe[aria-hidden], [role=status]"),
      ].filter(
        (one) =>
          one.matches("[aria-hidden]") ||
          /^(Loading|Looking|Connecting)/.test((one.ariaLabel ?? one.textContent).trim()),
      );
      const pictures = [...document.images].every((image) => image.complete);
      return loading.every((one) => !one.checkVisibility({ visibilityProperty: true })) && pictures;
    });
  await until("the page is loaded", isStill, 20_000);
  // Two frames: what the last answer changed is laid out and drawn.
  await page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
  );
}
