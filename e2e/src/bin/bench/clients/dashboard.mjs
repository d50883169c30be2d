// Measures pages of the dashboard in Chromium, and prints the samples as JSON. Runs beside
// `walk/` of the dashboard's test. Argument: how many samples, as JSON; what is not named there is
// not measured.
//   loads    loads of the list of sandboxes, each in a new browser context
//   changes  changes of a sandbox's state through the API
//   keys     keys pressed in the terminal
//   rows     sandboxes in the list, which is scrolled to its end
//   packed   true: the size of all files of the dashboard, as the server has them
// Environment: PANDASTACK_API, PANDASTACK_API_KEY.

import { api, openBrowser } from "./walk/people.mjs";
import { holds, PATIENCE_MS, same, until } from "./walk/wait.mjs";

const WANTED = JSON.parse(process.argv[2]);
const { PANDASTACK_API: url, PANDASTACK_API_KEY: key } = process.env;

const DEADLINE_MS = 10 * 60_000;
const SCROLL_MS_MAX = 2 * 60_000;
/** A page without requests and paints for so long has loaded. */
const QUIET_MS = 1_000;
/** How long a new window of Chromium loads its own interface, which would slow the page down. */
const WINDOW_MS = 2_000;
/** Samples that are not counted: the first ones open connections and compile code. */
const WARM_UPS = 3;
const WHEEL_PX = 1_000;
/** Does not appear in the prompt of the shell. */
const KEY = "q";

// An open browser would keep this program alive for ever.
setTimeout(() => {
  console.error(`not done after ${DEADLINE_MS} ms`);
  process.exit(1);
}, DEADLINE_MS).unref();

/** Asks the API with the key, and returns the answer. */
async function ask(method, path, body) {
  const answer = await api({ url }, method, path, key, body);
  holds(`${method} ${path} answers ${answer.status}`, answer.status < 300);
  return answer.body;
}

/** Makes the first account with a session cookie. Returns what its browser keeps. */
async function signIn(browser) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(url);
  const status = await page.evaluate(async (bearer) => {
    const answer = await fetch("/v1/auth/setup", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-pandastack-csrf": "1",
        authorization: `Bearer ${bearer}`,
      },
      body: JSON.stringify({
        email: "ada@example.com",
        password: "correct horse battery",
        cookie: true,
      }),
    });
    localStorage.setItem("pandastack-signed-in", "yes");
    return answer.status;
  }, key);
  holds(`the first account is made: ${status}`, status < 300);
  const kept = await context.storageState();
  same("cookies", kept.cookies.length, 1);
  await context.close();
  return kept;
}

/** A page of a person who is signed in, with an empty cache. */
async function openPage(browser, storageState) {
  const viewport = { width: 1280, height: 800 };
  const context = await browser.newContext({ storageState, viewport });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await pause(WINDOW_MS);
  return page;
}

/** Waits for a random time, so that samples do not follow the beat of the frames. */
function pause(msMax) {
  return new Promise((resolve) => setTimeout(resolve, (0.5 + Math.random() / 2) * msMax));
}

/** Runs in a new page: notes the largest paint, and when the first row of a list was painted. */
function notePaints() {
  globalThis.benchPaints = { largest: 0, rows: 0 };
  new PerformanceObserver((list) => {
    for (const { startTime } of list.getEntries()) globalThis.benchPaints.largest = startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  const watch = new MutationObserver(() => {
    if (document.querySelector("[data-row]") === null) return;
    watch.disconnect();
    // The frame after the change is painted before the timer.
    requestAnimationFrame(() =>
      setTimeout(() => {
        globalThis.benchPaints.rows = performance.now();
      }),
    );
  });
  watch.observe(document, { childList: true, subtree: true });
}

/** Loads the list with a cold cache. */
async function load(browser, session) {
  const page = await openPage(browser, session);
  await page.addInitScript(notePaints);
  const answers = [];
  let last = Date.now();
  page.on("request", () => {
    last = Date.now();
  });
  page.on("requestfinished", (request) => {
    last = Date.now();
    answers.push(request);
  });
  await page.goto(`${url}/sandboxes`);
  await page.locator("[data-row]").first().waitFor();
  let paints;
  await until("the page is loaded", async () => {
    const now = await page.evaluate(() => globalThis.benchPaints);
    if (now.rows === 0 || now.largest !== paints?.largest) last = Date.now();
    paints = now;
    return Date.now() - last > QUIET_MS;
  });
  const sizes = await Promise.all(answers.map(scriptSize));
  const scriptBytes = sizes.reduce((sum, one) => sum + one, 0);
  holds("the page has scripts and a largest paint", scriptBytes > 0 && paints.largest > 0);
  await page.context().close();
  return { ...paints, scriptBytes };
}

/** The size of a script as it was sent; 0 if the answer is no script. */
async function scriptSize(request) {
  const headers = await (await request.response()).allHeaders();
  if (!/javascript/.test(headers["content-type"] ?? "")) return 0;
  same(`encoding of ${request.url()}`, headers["content-encoding"], "gzip");
  return (await request.sizes()).responseBodySize;
}

async function loads(browser, session, count) {
  const samples = [];
  for (let at = 0; at < count; at++) samples.push(await load(browser, session));
  return {
    largest_ms: samples.map(({ largest }) => largest),
    rows_ms: samples.map(({ rows }) => rows),
    script_bytes: samples.map(({ scriptBytes }) => scriptBytes),
  };
}

/** Runs in the page: `benchSeen` becomes the time after the frame in which a row shows a text. */
function watchRow([id, text]) {
  globalThis.benchSeen = new Promise((resolve) => {
    const watch = new MutationObserver(() => {
      const row = document.querySelector(`[data-row="${id}"]`);
      if (!row?.textContent.includes(text)) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(Date.now())));
    });
    watch.observe(document, { childList: true, subtree: true, characterData: true });
  });
}

/** Pauses and resumes a sandbox by the API, until its row shows it. There is only one clock. */
async function changes(browser, session, { id, count }) {
  const page = await openPage(browser, session);
  await page.goto(`${url}/sandboxes`);
  await page.locator(`[data-row="${id}"]`).waitFor();
  const steps = [
    ["pause", "Paused"],
    ["resume", "Running"],
  ];
  const times = [];
  for (let at = 0; at < WARM_UPS + count; at++) {
    const [action, shown] = steps[at % 2];
    await page.evaluate(watchRow, [id, shown]);
    const begun = Date.now();
    await ask("POST", `/v1/sandboxes/${id}/${action}`);
    const seen = await inTime(`the row shows ${shown}`, page.evaluate(() => globalThis.benchSeen));
    if (at >= WARM_UPS) times.push(seen - begun);
    await pause(400);
  }
  const isPaused = (WARM_UPS + count) % 2 === 1;
  if (isPaused) await ask("POST", `/v1/sandboxes/${id}/resume`);
  await page.context().close();
  return times;
}

/** Waits for something in the page, which has no deadline by itself. */
async function inTime(what, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it never happened: ${what}`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs in the page: `benchEcho` becomes the time from the next key until the screen has it. */
function watchEcho(letter) {
  const rows = document.querySelector("[data-shell-state=open] .xterm-rows");
  const count = () => rows.textContent.split(letter).length;
  const before = count();
  globalThis.benchEcho = new Promise((resolve) => {
    let pressed;
    const note = (event) => {
      pressed = event.timeStamp;
    };
    document.addEventListener("keydown", note, { capture: true, once: true });
    const watch = new MutationObserver(() => {
      if (count() <= before) return;
      watch.disconnect();
      resolve(performance.now() - pressed);
    });
    watch.observe(rows, { childList: true, subtree: true, characterData: true });
  });
}

/** Presses keys in a shell, each after the echo of the one before. */
async function keys(browser, session, { id, count }) {
  const page = await openPage(browser, session);
  await page.goto(`${url}/sandboxes/${id}`);
  const shell = page.locator("[data-shell-state=open]");
  await shell.waitFor();
  await until("there is a prompt", async () => /[#$]\s*$/.test(await shell.innerText()));
  await shell.locator(".xterm").click();
  const times = [];
  for (let at = 0; at < WARM_UPS + count; at++) {
    await page.evaluate(watchEcho, KEY);
    await page.keyboard.press(KEY);
    const took = await inTime("the key is echoed", page.evaluate(() => globalThis.benchEcho));
    if (at >= WARM_UPS) times.push(took);
    await pause(200);
  }
  await page.context().close();
  return times;
}

/** Runs in the page: notes how long each frame took in which the list moved. */
function noteFrames() {
  const table = document.querySelector("[data-table]");
  const frames = [];
  let [time, top, moved] = [performance.now(), table.scrollTop, false];
  const note = () => {
    const now = performance.now();
    const moves = table.scrollTop !== top;
    // The rows of a movement are drawn after this function, which makes the next frame late.
    if (moves || moved) frames.push(now - time);
    [time, top, moved] = [now, table.scrollTop, moves];
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
  globalThis.benchFrames = frames;
}

/** Scrolls the list of all sandboxes to its end with the wheel of a mouse. */
async function scroll(browser, session, count) {
  const page = await openPage(browser, session);
  let last = Date.now();
  for (const event of ["request", "requestfinished"]) {
    page.on(event, () => {
      last = Date.now();
    });
  }
  await page.goto(`${url}/sandboxes`);
  // One row is the head.
  await page.locator(`[role=table][aria-rowcount="${count + 1}"]`).waitFor();
  await until("the page is loaded", () => Date.now() - last > QUIET_MS);
  const table = page.locator("[data-table]");
  await table.hover();
  await page.evaluate(noteFrames);
  const end = Date.now() + SCROLL_MS_MAX;
  const height = await table.evaluate((one) => one.scrollHeight - one.clientHeight);
  for (let at = 0; at < height; at += WHEEL_PX) {
    holds("the list is scrolled in time", Date.now() < end);
    await page.mouse.wheel(0, WHEEL_PX);
  }
  await page.locator(`[data-index="${count - 1}"]`).waitFor();
  const frames = await page.evaluate(() => globalThis.benchFrames);
  await page.context().close();
  return frames;
}

/**
 * The bytes of all files of the dashboard, compressed as they are in the program. Each file is
 * named in the page or in another file.
 */
async function packedBytes() {
  const found = new Set(["sandboxes"]);
  let bytes = 0;
  for (const path of found) {
    const answer = await fetch(`${url}/${path}`, {
      headers: { accept: "text/html, */*", "accept-encoding": "gzip" },
    });
    const text = await answer.text();
    // Some names are those of other things, such as modules in an error message.
    if (!answer.ok) continue;
    same(`encoding of ${path}`, answer.headers.get("content-encoding"), "gzip");
    bytes += Number(answer.headers.get("content-length"));
    for (const [name] of text.matchAll(/[\w-]+\.(js|css)\b/g)) found.add(`assets/${name}`);
    for (const [name] of text.matchAll(/[\w-]+\.(svg|txt)\b/g)) found.add(name);
  }
  return bytes;
}

const browser = await openBrowser();
try {
  const session = await signIn(browser);
  const measured = {};
  if (WANTED.rows) measured.frame_ms = await scroll(browser, session, WANTED.rows);
  if (WANTED.loads) Object.assign(measured, await loads(browser, session, WANTED.loads));
  if (WANTED.packed) measured.packed_bytes = await packedBytes();
  const [{ id }] = await ask("GET", "/v1/sandboxes?limit=1");
  if (WANTED.changes)
    measured.change_ms = await changes(browser, session, { id, count: WANTED.changes });
  if (WANTED.keys) measured.echo_ms = await keys(browser, session, { id, count: WANTED.keys });
  console.log(JSON.stringify(measured));
} catch (error) {
  console.error(error.stack ?? error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
