// Opens a page in Chromium and prints as JSON what the page saw with our SDK.
// The page comes from a name and port of its own, so the API is another origin for it. The page is
// not secure (no https, no localhost), so it has only the interfaces that every page has.
// Arguments: the folder of the SDK, the folder of the page.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [sdk, pages] = process.argv.slice(2);
const { PANDASTACK_API, PANDASTACK_API_KEY } = process.env;
const FILES = {
  "/": ["text/html", join(pages, "page.html")],
  "/page.js": ["text/javascript", join(pages, "page.js")],
  "/worker.js": ["text/javascript", join(pages, "worker.js")],
  "/sdk.js": ["text/javascript", join(sdk, "dist/esm/index.js")],
};

const site = createServer(async (request, response) => {
  const [type, file] = FILES[request.url] ?? [];
  if (file === undefined) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": type }).end(await readFile(file));
});
await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));

const profile = await mkdtemp(join(tmpdir(), "pandastack-browser-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: "/usr/bin/chromium",
  headless: true,
  chromiumSandbox: false,
  args: [
    "--disable-gpu",
    "--host-resolver-rules=MAP page.test 127.0.0.1",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
try {
  const page = await browser.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // The browser reports the refusals that the page asks for.
    const expected = /\b404\b/.test(message.text());
    if (message.type() === "error" && !expected) complaints.push(message.text());
  });
  // The page is not told why a request failed.
  page.on("requestfailed", (request) => {
    const { errorText } = request.failure();
    if (errorText !== "net::ERR_ABORTED") console.error(request.method(), request.url(), errorText);
  });
  const { port } = site.address();
  await page.goto(`http://page.test:${port}/`);
  await page.waitForFunction(() => globalThis.work !== undefined);
  const seen = await page.evaluate(
    ([baseUrl, apiKey]) => globalThis.work(baseUrl, apiKey),
    [PANDASTACK_API, PANDASTACK_API_KEY],
  );
  console.log(JSON.stringify({ ...seen, complaints }));
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
  site.close();
}
