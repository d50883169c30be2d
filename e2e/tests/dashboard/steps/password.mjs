// A link by which somebody chooses a password.

import { heading, told } from "../walk/people.mjs";
import { holds } from "../walk/wait.mjs";

const EMAIL = "ada@example.org";
const PASSWORD = "a better horse battery";

/** Chooses a password with the link of the operator, and signs in with it. */
export async function choosePassword(walk, page) {
  await page.goto(walk.reset);
  await heading(page, "Choose a new password");
  holds("the link's secret is not in the address", !page.url().includes("prs_"));
  await walk.album.take(page, "reset");
  await choose(page);
  await told(page, "The new password is set");
  await heading(page, "Sign in");
  await page.getByLabel("E-mail").fill(EMAIL);
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await heading(page, "Overview");
}

/** The link works once. */
export async function chooseAgain(walk, page) {
  await page.goto(walk.reset);
  walk.watch.expect("POST", /^\/v1\/auth\/reset$/, 410);
  await choose(page);
  await page.getByRole("alert").waitFor();
  await walk.album.take(page, "reset-over");
}

async function choose(page) {
  await page.getByLabel("New password").fill(PASSWORD);
  await page.keyboard.press("Enter");
}
