// Pages that show what happened elsewhere, the palette, and the list of shortcuts.

import { dialog, goTo, heading, part, told } from "../walk/people.mjs";
import { same } from "../walk/wait.mjs";

/** Connects to an address that is for documents only. The host refuses it. */
const REFUSED =
  "python3 -c 'import socket; socket.create_connection((\"203.0.113.9\", 443), 2)' 2>&1 || true";

/** Pages of the workspace, each with what makes it worth a picture. */
export const WORKSPACE = [
  ["Templates", "templates", "Catalogue of the server"],
  ["Audit", "audit", "ada@example.com"],
  ["API keys", "keys", "Use a key"],
  ["Settings", "settings", "Sessions"],
];

/** Pages that tell what the machines did. */
export const MACHINES = [
  ["Overview", "overview", "Sandboxes in the last hour"],
  ["Sandboxes", "sandboxes", "web"],
  ["Fork trees", "fork-trees", "Families"],
  ["Snapshots", "snapshots", "mini"],
  ["Performance", "performance", "mini"],
];

export async function takePages(walk, page, list) {
  for (const [title, name, sight] of list) {
    await goTo(page, title);
    await page.getByRole("main").getByText(sight).first().waitFor();
    await walk.album.take(page, name);
  }
}

/** Allows one destination, sees a refusal of another one, and allows everything again. */
export async function limitEgress(walk, page, run) {
  await part(page, "Network");
  await page.getByLabel("Only these destinations").check();
  await page.getByLabel("Allowed destinations").fill("https://pypi.org");
  await page.getByText("write only the host name").waitFor();
  await page.getByLabel("Allowed destinations").fill("pypi.org\n");
  await page.getByRole("button", { name: "Save" }).click();
  await told(page, "1 rule saved");
  await run(REFUSED);
  await page.getByText("203.0.113.9").first().waitFor();
  await walk.album.take(page, "egress");
  await page.getByLabel("Everything that the host allows").check();
  await page.getByRole("button", { name: "Save" }).click();
  await told(page, "Every destination is allowed");
}

/** The parts of a sandbox's page that no other step takes. */
export async function takeParts(walk, page) {
  for (const [label, sight] of [
    ["Terminal", /^Shell 1$/],
    ["Logs", /\d lines/],
    ["Metrics", "Memory"],
    ["Events", "sandbox.running"],
    ["Settings", "Idle limit"],
  ]) {
    await part(page, label);
    await page.getByRole("main").getByText(sight).first().waitFor();
    await walk.album.take(page, `sandbox-${label.toLowerCase()}`);
  }
}

export async function createVolume(walk, page) {
  await goTo(page, "Volumes");
  await page.getByRole("heading", { name: "No volumes yet" }).waitFor();
  await walk.album.take(page, "volumes-empty");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await dialog(page).getByLabel("Name").fill("data");
  await dialog(page).getByLabel("Size in GiB").fill("0.1");
  await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
  await told(page, "Volume data created");
  await page.getByRole("table", { name: "Volumes" }).getByText("data", { exact: true }).waitFor();
  await walk.album.take(page, "volumes");
}

/** Two webhooks: the receiver of the first takes everything, the second one refuses. */
export async function createWebhooks(walk, page) {
  await goTo(page, "Webhooks");
  await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
  await createWebhook(page, `${walk.receiver}/hook`, () => walk.album.take(page, "create-webhook"));
  await goTo(page, "Webhooks");
  await createWebhook(page, `${walk.url}/hook`, () => undefined);
}

async function createWebhook(page, address, look) {
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await dialog(page).getByLabel("Address").fill(address);
  await look();
  await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
  await dialog(page).getByRole("button", { name: "I have saved it" }).click();
  await heading(page, address);
}

/** What was sent to the webhooks meanwhile, and what came of it. */
export async function seeDeliveries(walk, page) {
  await openWebhook(page, `${walk.receiver}/hook`);
  const taken = page.getByRole("table", { name: "Deliveries" }).getByRole("row");
  await taken.filter({ hasText: "sandbox.running" }).filter({ hasText: "Delivered" }).first().waitFor();
  await walk.album.take(page, "webhook-delivered");
  await openWebhook(page, `${walk.url}/hook`);
  const rows = page.getByRole("table", { name: "Deliveries" }).getByRole("row");
  await rows.filter({ hasText: "sandbox.running" }).first().waitFor();
  await rows.nth(1).getByRole("button", { name: "Deliver once more" }).click();
  await told(page, "is delivered once more");
  await walk.album.take(page, "webhook");
  await rows
    .nth(1)
    .getByText(/^[a-z_]+\.[a-z_]+$/)
    .click();
  await dialog(page).getByRole("heading", { name: "What is sent" }).waitFor();
  await walk.album.take(page, "delivery");
  await page.keyboard.press("Escape");
}

async function openWebhook(page, address) {
  await goTo(page, "Webhooks");
  const rows = page.getByRole("table", { name: "Webhooks" }).getByRole("row");
  await rows.filter({ hasText: address }).click();
  await heading(page, address);
}

/** Ctrl-K finds a page by a word of it. */
export async function usePalette(walk, page) {
  await page.keyboard.press("Control+k");
  const input = page.getByRole("combobox", { name: "Search pages and actions" });
  await input.waitFor();
  await walk.album.take(page, "palette");
  await page.keyboard.type("trail");
  await page.getByRole("option", { name: "Audit" }).waitFor();
  await page.keyboard.press("Enter");
  await heading(page, "Audit");
  same("open dialogs", await page.locator("dialog[open]").count(), 0);
}

export async function showShortcuts(walk, page) {
  await page.keyboard.press("?");
  await dialog(page).getByRole("heading", { name: "Keyboard shortcuts" }).waitFor();
  await walk.album.take(page, "shortcuts");
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
}
