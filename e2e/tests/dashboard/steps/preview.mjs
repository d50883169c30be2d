// A server in the sandbox, and a stranger who opens it by a link.

import { dialog, heading, part, person } from "../walk/people.mjs";
import { same } from "../walk/wait.mjs";

const SERVE =
  "mkdir -p /srv/site && echo '<h1>Hello, stranger</h1>' > /srv/site/index.html && " +
  "exec python3 -m http.server 3000 -d /srv/site";

/** Starts a server as a process, and sees it. */
export async function startServer(walk, page) {
  await part(page, "Processes");
  await page.getByRole("button", { name: "Start a process" }).click();
  await dialog(page).getByLabel("Command").fill(SERVE);
  await dialog(page).getByLabel("Tag").fill("site");
  await dialog(page).getByRole("button", { name: "Start", exact: true }).click();
  await dialog(page).getByRole("log").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("table", { name: "Processes" }).getByText("site", { exact: true }).waitFor();
  await walk.album.take(page, "sandbox-processes");
}

/** Declares the port, shares it for an hour, and returns the link. */
export async function share(walk, page) {
  await part(page, "Ports");
  await page.getByRole("button", { name: "Declare a port" }).click();
  await dialog(page).getByLabel("Port").fill("3000");
  await dialog(page).getByLabel("Label").fill("site");
  await dialog(page).getByRole("button", { name: "Declare", exact: true }).click();
  const row = page.locator('[data-row="3000"]');
  await row.getByText("listening", { exact: true }).waitFor();
  await walk.album.take(page, "sandbox-ports");
  await row.getByRole("button", { name: "Share" }).click();
  await dialog(page).getByRole("button", { name: "Make the link" }).click();
  const link = (await dialog(page).locator("pre").innerText()).trim();
  await walk.album.take(page, "share-preview");
  await dialog(page).getByRole("button", { name: "Done" }).click();
  return link;
}

/** Somebody without an account opens the link. The dashboard stays closed to them. */
export async function openAsStranger(walk, browser, link) {
  const context = await person(browser, walk.watch, "a stranger");
  const page = await context.newPage();
  // Browsers ask every site for it, and this one has none.
  await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
  const answer = await page.goto(link);
  same(
    "the answer for a stranger",
    [answer.status(), await page.locator("h1").innerText()],
    [200, "Hello, stranger"],
  );
  await page.goto(`${walk.url}/sandboxes`);
  await heading(page, "Sign in");
  await context.close();
}
