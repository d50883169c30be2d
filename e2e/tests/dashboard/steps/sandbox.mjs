// A sandbox from its creation to its terminal, and its sleep.

import { dialog, heading, part, screen, told, typed } from "../walk/people.mjs";
import { holds, until } from "../walk/wait.mjs";

/** Creates the sandbox `web` from the empty list, and returns its id. */
export async function create(walk, page) {
  await page.getByRole("heading", { name: "No sandboxes yet" }).waitFor();
  await walk.album.take(page, "sandboxes-empty");
  await page.getByRole("button", { name: "Create a sandbox" }).click();
  await dialog(page).getByLabel("Template").selectOption("mini");
  await dialog(page).getByLabel("Name").fill("web");
  await walk.album.take(page, "create-sandbox");
  await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
  await heading(page, "web");
  await told(page, "Sandbox created");
  return page.url().match(/sandboxes\/([^/]+)/)[1];
}

/** Types in a shell, opens a second one, and goes back to the first. */
export async function useTerminal(page) {
  await page.locator("[data-shell-state=open]").waitFor();
  await typed(page, "echo typed-$((40 + 2))", "typed-42");
  await typed(page, "ls --color=always /", "usr");
  await page.getByRole("button", { name: "Open another shell" }).click();
  await page.locator("[data-shell-state=open]").nth(1).waitFor();
  await typed(page, "echo second-$((1 + 1))", "second-2");
  await page.getByRole("tab", { name: "Shell 1" }).click();
  await until("the first shell is shown again", async () =>
    (await screen(page)).includes("typed-42"),
  );
}

/** Puts the sandbox to sleep. Typing wakes it, and the shell gets what was typed. */
export async function sleepAndWake(walk, page) {
  await part(page, "Terminal");
  await page.locator("[data-shell-state=open]").first().waitFor();
  await typed(page, "uname -sm; ls --color=always /", "usr");
  await page.getByRole("button", { name: "Sleep" }).click();
  await told(page, "put to sleep");
  await page.locator("[data-shell-state=asleep]:not(.invisible)").waitFor();
  await page.getByRole("main").getByText("Asleep", { exact: true }).waitFor();
  await walk.album.take(page, "asleep");
  await typed(page, "echo woke-$((1 + 1))", "woke-2");
  await page.getByRole("main").getByText("Running", { exact: true }).waitFor();
}

/** Saves a snapshot from the menu of the page. */
export async function snapshot(page) {
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Save a snapshot" }).click();
  await told(page, /napshot/);
}

/** Pauses two sandboxes from the list, and deletes both. The dialog names what is lost. */
export async function useBulkActions(walk, page, [id, other]) {
  const rows = [id, other].map((one) => page.locator(`[data-row="${one}"]`));
  const select = async () => {
    for (const row of rows) await row.getByRole("checkbox").check();
  };
  const action = (name) =>
    page
      .getByRole("toolbar", { name: "Selected sandboxes" })
      .getByRole("button", { name, exact: true })
      .click();
  await select();
  await walk.album.take(page, "bulk");
  await action("Pause");
  for (const row of rows) await row.getByText("Paused", { exact: true }).waitFor();
  await select();
  await action("Delete");
  holds("the dialog names what is lost", (await dialog(page).getByRole("listitem").count()) > 0);
  await dialog(page).getByRole("button", { name: "Delete 2 sandboxes" }).click();
  for (const row of rows) await row.waitFor({ state: "detached" });
}
