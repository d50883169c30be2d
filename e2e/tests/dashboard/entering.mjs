// The other ways into the dashboard: a link to choose a password, and an identity provider.
// Environment: PANDASTACK_API, PANDASTACK_RESET (a link), PANDASTACK_PROVIDER (`accepts`, or
// `denies`: then only that is looked at), PANDASTACK_SHOTS (a folder for the pictures).

import { chooseAgain, choosePassword } from "./steps/password.mjs";
import { refuse, signInAtProvider } from "./steps/provider.mjs";
import { Album } from "./walk/album.mjs";
import { openBrowser, person } from "./walk/people.mjs";
import { Watch } from "./walk/watch.mjs";

const { PANDASTACK_API, PANDASTACK_RESET, PANDASTACK_PROVIDER, PANDASTACK_SHOTS } = process.env;
const browser = await openBrowser();
const walk = {
  url: PANDASTACK_API,
  reset: PANDASTACK_RESET,
  watch: new Watch(),
  album: new Album(PANDASTACK_SHOTS),
};
const steps =
  PANDASTACK_PROVIDER === "denies" ? [refuse] : [choosePassword, chooseAgain, signInAtProvider];

for (const step of steps) {
  const page = await (await person(browser, walk.watch, step.name)).newPage();
  try {
    await step(walk, page);
    await page.context().close();
  } catch (error) {
    await page.screenshot({ path: `${PANDASTACK_SHOTS}/failed.png` }).catch(() => {});
    console.error(`${step.name}: ${error.stack ?? error}`);
    process.exitCode = 1;
    break;
  }
}
const wrong = [...walk.watch.complaints(process.exitCode === undefined), ...walk.album.problems];
for (const one of wrong) console.error(one);
if (wrong.length > 0) process.exitCode = 1;
await browser.close();
