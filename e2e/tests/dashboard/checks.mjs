// Walks through the dashboard of a real server with real machines, as people use it, and fails if a
// page misbehaves. Each step is a sentence about the product; `steps/` has the details.
// Environment: PANDASTACK_API, PANDASTACK_API_KEY, PANDASTACK_LINK (the one-time link that the
// server made at its start), PANDASTACK_RECEIVER (takes what webhooks send), PANDASTACK_SHOTS (a
// folder for the pictures).

import { runCode } from "./steps/code.mjs";
import { seeChange, useFiles } from "./steps/files.mjs";
import { createByKeyboard, revoke } from "./steps/keys.mjs";
import * as pages from "./steps/pages.mjs";
import { openAsStranger, share, startServer } from "./steps/preview.mjs";
import { create, sleepAndWake, snapshot, useBulkActions, useTerminal } from "./steps/sandbox.mjs";
import { setUp, signIn, signInQuickly, signOut, useLinkAgain } from "./steps/signing.mjs";
import { invite, join, refuseMember, seeMember } from "./steps/team.mjs";
import { startBuild, watchBuild } from "./steps/templates.mjs";
import { compare, forkThreeWays, promote, writeInBranch } from "./steps/tree.mjs";
import { readBill } from "./steps/usage.mjs";
import { Album } from "./walk/album.mjs";
import { api, goTo, heading, openBrowser, person } from "./walk/people.mjs";
import { Steps } from "./walk/steps.mjs";
import { Watch } from "./walk/watch.mjs";

const { PANDASTACK_API, PANDASTACK_API_KEY, PANDASTACK_LINK, PANDASTACK_SHOTS } = process.env;
const { PANDASTACK_RECEIVER } = process.env;
const steps = new Steps(PANDASTACK_SHOTS);
// Two browsers: pictures of two pages of one browser wait for each other.
const [first, second] = await Promise.all([openBrowser(), openBrowser()]);
const walk = {
  url: PANDASTACK_API,
  key: PANDASTACK_API_KEY,
  link: PANDASTACK_LINK.trim(),
  receiver: PANDASTACK_RECEIVER,
  watch: new Watch(),
  album: new Album(PANDASTACK_SHOTS),
};

const step = (what, page, work) => steps.run(what, page, work);

/** The machines: what is done with one sandbox and its copies. */
async function useMachines(page) {
  const id = await step("create a sandbox", page, () => create(walk, page));
  const run = (cmd) => api(walk, "POST", `/v1/sandboxes/${id}/exec`, walk.key, { cmd });
  await step("type in its terminal", page, () => useTerminal(page));
  await step("upload, edit and download files", page, () => useFiles(walk, page));
  await step("see a change of a file", page, () => seeChange(page, run));
  await step("run code with a plot", page, () => runCode(walk, page));
  await step("start a server in it", page, () => startServer(walk, page));
  const link = await step("share its port", page, () => share(walk, page));
  const stranger = step("open the port as a stranger", page, () =>
    openAsStranger(walk, first, link),
  );
  await step("save a snapshot", page, () => snapshot(page));
  await stranger;
  const branches = await step("fork it three ways", page, () => forkThreeWays(walk, page, id));
  const [kept, ...others] = branches;
  await step("write a file in a branch", page, () => writeInBranch(walk, page, kept));
  await step("compare two branches", page, () => compare(walk, page, [others[0], kept]));
  await step("promote a branch", page, () => promote(walk, page, kept, others));
  await step("open the sandbox from the list", page, async () => {
    await goTo(page, "Sandboxes");
    await page.getByRole("link", { name: "web", exact: true }).first().click();
    await heading(page, "web");
  });
  await step("put it to sleep, and wake it by typing", page, () => sleepAndWake(walk, page));
  await step("limit what it reaches", page, () => pages.limitEgress(walk, page, run));
  await step("see the other parts of its page", page, () => pages.takeParts(walk, page));
  return [id, kept];
}

/** The workspace: what needs no sandbox, at the same time in the second browser. */
async function useWorkspace(page) {
  await step("sign in with a second browser", page, () => signInQuickly(walk, page));
  await step("create webhooks", page, () => pages.createWebhooks(walk, page));
  await step("build a template", page, () => startBuild(walk, page));
  await step("watch the build", page, () => watchBuild(walk, page));
  const key = await step("create a key by keyboard alone", page, () =>
    createByKeyboard(walk, page),
  );
  await step("create a volume", page, () => pages.createVolume(walk, page));
  const invitation = await step("invite somebody", page, () => invite(walk, page));
  const bob = await step("join", page, () => join(walk, second, invitation));
  await step("see the member", page, () => seeMember(walk, page));
  await step("refuse the member what only admins may do", bob, () => refuseMember(walk, bob));
  await bob.context().close();
  await step("use the command palette", page, () => pages.usePalette(walk, page));
  await step("show the shortcuts", page, () => pages.showShortcuts(walk, page));
  await step("see the pages of the workspace", page, () =>
    pages.takePages(walk, page, pages.WORKSPACE),
  );
  return key;
}

try {
  const page = await (await person(first, walk.watch, "Ada")).newPage();
  await step("set up the server", page, () => setUp(walk, page));
  await step("sign out", page, () => signOut(page));
  await step("use the link once more", page, () => useLinkAgain(walk, page));
  await step("sign in", page, () => signIn(walk, page));
  const other = await (await person(second, walk.watch, "Ada at her second browser")).newPage();
  const [machines, key] = await Promise.all([useMachines(page), useWorkspace(other)]);
  await Promise.all([
    step("see what the machines did", other, () => pages.takePages(walk, other, pages.MACHINES)),
    step("see the deliveries", page, () => pages.seeDeliveries(walk, page)),
  ]);
  await step("revoke the key", other, () => revoke(walk, other, key));
  await other.context().close();
  await step("read the bill", page, () => readBill(walk, page));
  await goTo(page, "Sandboxes");
  await step("pause and delete sandboxes", page, () => useBulkActions(walk, page, machines));
  await step("sign out again", page, () => signOut(page));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
await steps.end(walk, [first, second]);
