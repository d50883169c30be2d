// An API key: created by keyboard alone, shown once, used, and revoked.

import { api, dialog, goTo, heading, told } from "../walk/people.mjs";
import { holds, same, until } from "../walk/wait.mjs";

/** From any page to a new key without a mouse. Returns the key. */
export async function createByKeyboard(walk, page) {
  await page.keyboard.press("g");
  await page.keyboard.press("k");
  await heading(page, "API keys");
  await page.keyboard.press("c");
  await dialog(page).waitFor();
  await page.keyboard.type("walk");
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowUp"); // 30 days instead of 90
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const secret = dialog(page).locator("[data-secret=api-key] pre");
  const key = (await secret.innerText()).trim();
  await focusOn(page, "I have saved it");
  await page.keyboard.press("Enter");
  await dialog(page).waitFor({ state: "detached" });
  await page.getByRole("table", { name: "API keys" }).getByText("walk", { exact: true }).waitFor();
  holds("the key is shown once", !(await page.content()).includes(key));
  same("the key works", (await api(walk, "GET", "/v1/sandboxes", key)).status, 200);
  return key;
}

/** Presses Tab until a button has the focus. */
async function focusOn(page, name) {
  await until(
    `${name} has the focus`,
    async () => {
      if ((await page.evaluate(() => document.activeElement?.textContent)) === name) return true;
      await page.keyboard.press("Tab");
      return false;
    },
    10_000,
  );
}

/** A revoked key is refused at once. */
export async function revoke(walk, page, key) {
  await goTo(page, "API keys");
  await page.getByRole("button", { name: "Revoke walk" }).click();
  await walk.album.take(page, "revoke-key");
  await dialog(page).getByRole("button", { name: "Revoke the key" }).click();
  await told(page, "Key walk revoked");
  await page.getByRole("button", { name: "Revoke walk" }).waitFor({ state: "detached" });
  same("a revoked key", (await api(walk, "GET", "/v1/sandboxes", key)).status, 401);
}
