// Walks through the pages of databases on a real server, with one database and one branch.
// Environment: PANDASTACK_API, PANDASTACK_API_KEY, PANDASTACK_LINK (the one-time link that the
// server made at its start), PANDASTACK_SHOTS (a folder for the pictures).

import * as databases from "./steps/databases.mjs";
import { setUpQuickly } from "./steps/signing.mjs";
import { Album } from "./walk/album.mjs";
import { openBrowser, person } from "./walk/people.mjs";
import { Steps } from "./walk/steps.mjs";
import { Watch } from "./walk/watch.mjs";

const { PANDASTACK_API, PANDASTACK_API_KEY, PANDASTACK_LINK, PANDASTACK_SHOTS } = process.env;
const steps = new Steps(PANDASTACK_SHOTS);
const browser = await openBrowser();
const walk = {
  url: PANDASTACK_API,
  key: PANDASTACK_API_KEY,
  link: PANDASTACK_LINK.trim(),
  watch: new Watch(),
  album: new Album(PANDASTACK_SHOTS),
};

try {
  const page = await (await person(browser, walk.watch, "Ada")).newPage();
  const step = (what, work) => steps.run(what, page, work);
  await step("set up the server", () => setUpQuickly(walk, page));
  const id = await step("create a database", () => databases.create(walk, page));
  await step("copy its connection", () => databases.connect(walk, page, id));
  await step("query it", () => databases.query(walk, page, id));
  await step("read its log", () => databases.readLog(walk, page));
  await step("ask for a restart", () => databases.askForRestart(walk, page));
  const made = await step("branch it", () => databases.branch(walk, page));
  await step("compare both", () => databases.compare(walk, page, [id, made]));
  await step("list both", () => databases.list(walk, page, [id, made]));
  await step("see no machines of databases among the sandboxes", () =>
    databases.seeNoMachines(walk, page, [id, made]),
  );
  await step("see a failed one", () => databases.seeFailure(walk, page, made));
  await step("delete the branch", () => databases.deleteFromPage(walk, page, made));
  await step("see its backups", () => databases.seeBackups(walk, page, id));
  await step("delete it", () => databases.deleteFromList(walk, page));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
await steps.end(walk, [browser]);
