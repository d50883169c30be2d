// The first account, signing out, and signing in.

import { heading } from "../walk/people.mjs";
import { holds, same } from "../walk/wait.mjs";

export const ADA = { name: "Ada", email: "ada@example.com", password: "correct horse battery" };

/** Nobody has an account. The page says so, and the link of `pandastack up` makes the first one. */
export async function setUp(walk, page) {
  const policy = (await page.goto(walk.url)).headers()["content-security-policy"] ?? "";
  holds(
    `nothing inline may run: ${policy}`,
    /script-src 'self'/.test(policy) && !policy.includes("unsafe"),
  );
  await heading(page, "Set up this server");
  await page.getByText("pandastack dashboard").waitFor();
  await walk.album.take(page, "first-run");

  await page.goto(walk.link);
  await page.getByLabel("Name").fill(ADA.name);
  await page.getByLabel("E-mail").fill(ADA.email);
  await page.getByLabel("Password", { exact: true }).fill("short");
  await page.getByText("Use at least 10 characters").waitFor();
  await page.getByLabel("Password", { exact: true }).fill(ADA.password);
  await walk.album.take(page, "set-up");
  await page.getByRole("button", { name: "Create the account" }).click();
  await heading(page, "Overview");
  holds("the link's secret is not in the address", !page.url().includes("#"));
  await keepsNoSecret(page);
}

/** Makes the first account with the link. */
export async function setUpQuickly(walk, page) {
  await page.goto(walk.link);
  await page.getByLabel("Name").fill(ADA.name);
  await page.getByLabel("E-mail").fill(ADA.email);
  await page.getByLabel("Password", { exact: true }).fill(ADA.password);
  await page.getByRole("button", { name: "Create the account" }).click();
  await heading(page, "Overview");
}

/** No script can read the session, and the browser's storage has no secret. */
async function keepsNoSecret(page) {
  const cookies = (await page.context().cookies()).filter(({ name }) => name.includes("session"));
  same(
    "cookies",
    cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite]),
    [[true, "Lax"]],
  );
  const seen = await page.evaluate(
    () => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }),
  );
  holds(
    `nothing secret is stored: ${seen}`,
    !seen.includes(cookies[0].value) && !/p[a-z]{2}_/.test(seen),
  );
}

export async function signOut(page) {
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await heading(page, "Sign in");
}

/** A link works once. */
export async function useLinkAgain(walk, page) {
  await page.goto(walk.link);
  await heading(page, "Sign in with this link");
  walk.watch.expect("POST", /^\/v1\/auth\/link$/, 410);
  await page.getByRole("button", { name: "Sign in to this server" }).click();
  await heading(page, "This link does not work");
  await walk.album.take(page, "link-over");
}

/** A wrong password is refused. After the right one the page is shown that was asked for. */
export async function signIn(walk, page) {
  await page.goto(`${walk.url}/sandboxes`);
  await heading(page, "Sign in");
  walk.watch.expect("POST", /^\/v1\/auth\/login$/, 401);
  await enter(page, "not the password");
  await page.getByRole("alert").waitFor();
  await walk.album.take(page, "sign-in");
  await enter(page, ADA.password);
  await heading(page, "Sandboxes");
}

/** Signs in to the overview. */
export async function signInQuickly(walk, page) {
  await page.goto(walk.url);
  await enter(page, ADA.password);
  await heading(page, "Overview");
}

async function enter(page, password) {
  await page.getByLabel("E-mail").fill(ADA.email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.keyboard.press("Enter");
}
