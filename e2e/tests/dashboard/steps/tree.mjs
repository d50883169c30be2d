// The fork tree: three copies from the picture, what differs between two, and one that stays.

import { dialog, heading, part, told } from "../walk/people.mjs";
import { holds, same, until } from "../walk/wait.mjs";

const WRITE = "echo ours > /root/branch.txt; cat /root/branch.txt; ls /missing";
const nodes = (page) => page.locator("[data-node]");
const node = (page, id) => page.locator(`[data-node="${id}"]`);

/** Forks a sandbox three ways from its node, and returns the ids of the copies. */
export async function forkThreeWays(walk, page, id) {
  await page.getByRole("link", { name: "Fork tree", exact: true }).click();
  await heading(page, "Fork tree");
  await node(page, id).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Promote" }).waitFor({ state: "hidden" });
  await page.getByRole("menuitem", { name: "Fork three ways" }).click();
  await told(page, "3 copies made");
  await until("the picture has four nodes", async () => (await nodes(page).count()) === 4);
  const ids = await nodes(page).evaluateAll((all) => all.map((one) => one.dataset.node));
  await walk.album.take(page, "fork-tree");
  return ids.filter((one) => one !== id);
}

/** Writes a file in a branch with a command. */
export async function writeInBranch(walk, page, id) {
  await node(page, id).dblclick();
  await page.locator("[data-shell-state=open]").waitFor();
  await part(page, "Commands");
  await page.getByLabel("Command", { exact: true }).fill(WRITE);
  await page.keyboard.press("Enter");
  const run = page.locator("[data-run-state=done]");
  await run.getByText("exit 2").waitFor();
  await run.getByText("ours", { exact: false }).first().waitFor();
  await walk.album.take(page, "sandbox-commands");
  await page.getByRole("link", { name: "Fork tree", exact: true }).click();
  await nodes(page).nth(3).waitFor();
}

/** Compares two branches: the file is only in one of them. */
export async function compare(walk, page, [first, second]) {
  await node(page, first).click();
  await page.keyboard.press("c");
  await page.getByText("Choose the sandbox to compare").waitFor();
  await node(page, second).click();
  const row = dialog(page).locator('[data-row="/root/branch.txt"]');
  await row.getByText("added", { exact: true }).waitFor();
  await walk.album.take(page, "compare");
  await dialog(page).getByRole("button", { name: "Swap" }).click();
  await row.getByText("removed", { exact: true }).waitFor();
  await dialog(page).getByRole("button", { name: "Close" }).click();
}

/** Promotes a branch by keyboard. The dialog names the others, and they are deleted. */
export async function promote(walk, page, id, others) {
  await node(page, id).click();
  await page.keyboard.press("p");
  same("named losses", await dialog(page).getByRole("listitem").count(), others.length);
  await walk.album.take(page, "promote");
  await dialog(page)
    .getByRole("button", { name: /^Promote, delete 2/ })
    .click();
  await told(page, "Branch promoted");
  for (const other of others) await node(page, other).waitFor({ state: "detached" });
  holds("the promoted branch is still there", (await node(page, id).count()) === 1);
}
