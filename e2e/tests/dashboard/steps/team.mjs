// A second person: invited, joined, and refused what only admins may do.

import { asPage, dialog, goTo, heading, person } from "../walk/people.mjs";
import { holds, same } from "../walk/wait.mjs";

const BOB = { name: "Bob", email: "bob@example.com", password: "staple battery horse" };

/** Invites somebody, and returns the link. It is shown once. */
export async function invite(walk, page) {
  await goTo(page, "Team");
  await page.getByRole("button", { name: "Invite", exact: true }).click();
  await dialog(page).getByLabel("E-mail").fill(BOB.email);
  await dialog(page).getByRole("button", { name: "Invite", exact: true }).click();
  const link = (await dialog(page).locator("[data-secret=invite] pre").innerText()).trim();
  await walk.album.take(page, "invite-link");
  await dialog(page).getByRole("button", { name: "Done" }).click();
  await page.getByRole("table", { name: "Open invites" }).getByText(BOB.email).waitFor();
  holds("the link is shown once", !(await page.content()).includes(link));
  return link;
}

/** Accepts the invite in a browser of their own, and returns their page. */
export async function join(walk, browser, link) {
  const context = await person(browser, walk.watch, "Bob");
  const page = await context.newPage();
  await page.goto(link);
  await page.getByRole("heading", { name: /^Join / }).waitFor();
  await page.getByText(BOB.email).waitFor();
  await page.getByLabel("Name").fill(BOB.name);
  await page.getByLabel("Choose a password").fill(BOB.password);
  await walk.album.take(page, "join");
  await page.getByRole("button", { name: "Create the account and join" }).click();
  await heading(page, "Overview");
  return page;
}

/** The owner sees the new member at once. */
export async function seeMember(walk, page) {
  await page.getByRole("table", { name: "Members" }).getByText(BOB.email).waitFor();
  await page.getByRole("table", { name: "Open invites" }).waitFor({ state: "detached" });
  await walk.album.take(page, "team");
}

/** A member sees no control of admins, and the API refuses them too. */
export async function refuseMember(walk, page) {
  await goTo(page, "Team");
  const members = page.getByRole("table", { name: "Members" });
  await members.getByText(BOB.email).waitFor();
  const controls = page.getByRole("button", {
    name: /^(Invite|Rename|Actions of .*|Delete the .*)$/,
  });
  same("controls of admins", await controls.count(), 0);
  await page.keyboard.press("c");
  same("open dialogs", await page.locator("dialog[open]").count(), 0);
  await walk.album.take(page, "team-member");
  const { body: me } = await asPage(page, "GET", "/v1/me");
  const org = `/v1/orgs/${me.current_org_id}`;
  const owner = (await asPage(page, "GET", `${org}/members`)).body.find(
    ({ role }) => role === "owner",
  );
  const refused = [
    ["POST", `${org}/members`, { email: "eve@example.com", role: "member" }],
    ["PATCH", org, { name: "Mine" }],
    ["DELETE", `${org}/members/${owner.user_id}`, undefined],
    ["PUT", `${org}/budget`, { monthly_usd: 1, alert_percent: 80, hard_cap: true }],
  ];
  for (const [method, path, body] of refused) {
    walk.watch.expect(method, new RegExp(`^${path}$`), 403);
    const answer = await asPage(page, method, path, body);
    same(`${method} ${path}`, answer.status, 403);
  }
  await goTo(page, "Usage");
  await page.getByText("Admins and owners set it.").waitFor();
}
