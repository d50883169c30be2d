// The browser and the people in it. Each person has a context: cookies and storage of their own.

import { chromium } from "playwright-core";
import { WIDE } from "./album.mjs";
import { PATIENCE_MS, until } from "./wait.mjs";

export function openBrowser() {
  return chromium.launch({
    executablePath: "/usr/bin/chromium",
    headless: true,
    chromiumSandbox: false,
    args: [
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--no-proxy-server",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** Somebody with a browser of their own. */
export async function person(browser, watch, who) {
  const context = await browser.newContext({
    viewport: WIDE,
    colorScheme: "light",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(PATIENCE_MS);
  await watch.over(context, who);
  return context;
}

/** Goes to a page as people do: by the navigation. */
export async function goTo(page, title) {
  await page
    .getByRole("navigation", { name: "Pages" })
    .getByRole("link", { name: title, exact: true })
    .click();
  await heading(page, TITLES[title] ?? title);
}

const TITLES = { Usage: "Usage and billing" };

/** Waits for the title of a page. */
export async function heading(page, title) {
  await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
}

/** Opens a part of the page of a sandbox or a database. */
export async function part(page, name, of = "sandbox") {
  await page
    .getByRole("navigation", { name: `Parts of the ${of}` })
    .getByRole("link", { name })
    .click();
}

/** The open dialog. */
export function dialog(page) {
  return page.locator("dialog[open]").last();
}

/** Waits for a message at the edge of the page, and closes it unless it went by itself. */
export async function told(page, text) {
  const message = page.locator("[data-toast]").filter({ hasText: text });
  await message.first().waitFor();
  await message.getByRole("button", { name: "Dismiss" }).evaluateAll((all) => {
    for (const one of all) one.click();
  });
}

/** What the terminal shows. */
export async function screen(page) {
  const rows = await page.locator("[data-shell-state]:not(.invisible) .xterm-rows").innerText();
  return rows.replaceAll("\u00a0", " ");
}

/** Types a line into the terminal, and waits until it shows a text. */
export async function typed(page, line, answer) {
  await page.locator("[data-shell-state]:not(.invisible) .xterm").click();
  await page.keyboard.type(`${line}\n`);
  await until(`the terminal shows ${answer}`, async () => (await screen(page)).includes(answer));
}

/** Asks the API as a program: with a key, or without. */
export async function api(walk, method, path, key, body) {
  const answer = await fetch(`${walk.url}${path}`, {
    method,
    headers: {
      "content-type": "application/json",
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text,
  };
}

/** Asks the API as a page does: with the session of the person who is signed in there. */
export function asPage(page, method, path, body) {
  return page.evaluate(
    async ([verb, address, content]) => {
      const answer = await fetch(address, {
        method: verb,
        headers: { "content-type": "application/json", "x-pandastack-csrf": "1" },
        ...(content === undefined ? {} : { body: JSON.stringify(content) }),
      });
      return { status: answer.status, body: await answer.json().catch(() => null) };
    },
    [method, path, body],
  );
}
