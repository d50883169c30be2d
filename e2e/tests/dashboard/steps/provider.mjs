// Signing in at the organisation's identity provider.

import { asPage, heading } from "../walk/people.mjs";
import { same } from "../walk/wait.mjs";

const BUTTON = { name: "Sign in with your organisation’s account" };

/** Comes back from the provider to the page that was asked for. */
export async function signInAtProvider(walk, page) {
  await page.goto(`${walk.url}/keys`);
  await page.getByRole("button", BUTTON).waitFor();
  await walk.album.take(page, "sign-in-provider");
  await page.getByRole("button", BUTTON).click();
  await heading(page, "API keys");
  same("the address", page.url(), `${walk.url}/keys`);
  const { body } = await asPage(page, "GET", "/v1/me");
  same("who is signed in", body.email, "grace@example.org");
}

/** The provider refuses: the page says why, and offers another try. */
export async function refuse(walk, page) {
  await page.goto(`${walk.url}/signin`);
  await page.getByRole("button", BUTTON).click();
  await page.getByRole("alert").getByText("not you").waitFor();
  await page.getByRole("button", BUTTON).waitFor();
  await walk.album.take(page, "provider-refuses");
}
