// A database from its creation to its end: console, figures, a branch, backups.

import { api, dialog, goTo, heading, part, told } from "../walk/people.mjs";
import { holds, same } from "../walk/wait.mjs";

/** How long a server of PostgreSQL may take to start or to be copied under emulation. */
const SERVER = { timeout: 240_000 };
/** The last two minutes of an archive cannot be restored, so a new database has no window yet. */
const WINDOW = { timeout: 240_000 };

const FILL = `create table items (id int primary key, name text);
insert into items select n, 'item ' || n from generate_series(1, 3) n;`;

const open = (page, name) => part(page, name, "database");
const section = (page, name) => page.getByRole("region", { name });
const editor = (page) => page.getByRole("textbox", { name: "SQL" });
const node = (page, id) => page.locator(`[data-node="${id}"]`);
const idOf = (page) => page.url().match(/databases\/([^/]+)/)[1];

/** Creates the database `orders` from the empty list, and returns its id. */
export async function create(walk, page) {
  await goTo(page, "Databases");
  await page.getByRole("heading", { name: "No databases yet" }).waitFor();
  await walk.album.take(page, "databases-empty");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await dialog(page).getByLabel("Label").fill("orders");
  await dialog(page).getByText("pandastack db create --label orders").waitFor();
  await walk.album.take(page, "create-database");
  await dialog(page).getByRole("button", { name: "Create", exact: true }).click();
  await heading(page, "orders");
  await isRunning(page);
  return idOf(page);
}

/** The connection can be copied, and its secrets are hidden until somebody asks. */
export async function connect(walk, page, id) {
  const { body } = await api(walk, "GET", `/v1/databases/${id}`, walk.key);
  await page.getByRole("button", { name: "Copy the connection URL" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  same("the copied address", copied === body.connection_url, true);
  holds("the password is hidden", !(await page.content()).includes(body.password));
  await page.getByRole("button", { name: "Show the secrets" }).click();
  await page.getByText(body.password, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Hide the secrets" }).click();
  await page.getByText(body.password).waitFor({ state: "detached" });
  await page.getByText("Cache hits").waitFor();
  await page.getByText("PostgreSQL 16").first().waitFor();
  await walk.album.take(page, "database-overview");
}

/** Several statements as one, rows, a plan, and a mistake. */
export async function query(walk, page, id) {
  await open(page, "Query");
  await runSql(page, FILL);
  await page.getByText("2 statements in one transaction").waitFor();
  await runSql(page, "select * from items order by id");
  const rows = section(page, "Rows").getByRole("row");
  await rows.filter({ hasText: "item 3" }).waitFor();
  same("rows with their header", await rows.count(), 4);
  await walk.album.take(page, "database-query");
  await page.getByRole("button", { name: "Explain" }).click();
  await page
    .getByRole("list", { name: "Steps of the plan" })
    .getByText(/Scan.* on items/)
    .waitFor();
  await walk.album.take(page, "database-plan");
  walk.watch.expect("POST", new RegExp(`/databases/${id}/proxy/v1/query$`), 400);
  await runSql(page, "select nothing_like_this from items");
  await page.getByText('column "nothing_like_this" does not exist').waitFor();
  await walk.album.take(page, "database-mistake");
}

/** The log tells of the mistake. */
export async function readLog(walk, page) {
  await open(page, "Logs");
  await page.getByLabel("Filter lines").fill("nothing_like_this");
  await page.getByRole("log").getByText("nothing_like_this").waitFor();
  await walk.album.take(page, "database-logs");
}

/** What a restart does is asked before; nobody restarts here. */
export async function askForRestart(walk, page) {
  await open(page, "Settings");
  await walk.album.take(page, "database-settings");
  await page.getByRole("button", { name: "Restart", exact: true }).click();
  await dialog(page).getByText("Data, address and credentials stay").waitFor();
  await walk.album.take(page, "database-restart");
  await dialog(page).getByRole("button", { name: "Cancel" }).click();
  await dialog(page).waitFor({ state: "detached" });
}

/** Makes the branch `try`, changes its schema there, and returns its id. */
export async function branch(walk, page) {
  await page.getByRole("button", { name: "Branch", exact: true }).click();
  await dialog(page).getByLabel("Label").fill("try");
  await walk.album.take(page, "branch-database");
  await dialog(page).getByRole("button", { name: "Branch", exact: true }).click();
  await heading(page, "try");
  await isRunning(page);
  await open(page, "Query");
  await runSql(page, "alter table items add column price int");
  await page
    .getByRole("status")
    .filter({ hasText: / in \d/ })
    .waitFor();
  return idOf(page);
}

/** The picture has both, and the schemas differ in a column. */
export async function compare(walk, page, [source, made]) {
  await open(page, "Branches");
  await page.getByText("A family of 2 databases").waitFor();
  await node(page, source).waitFor();
  await node(page, made).click();
  const chosen = page.getByRole("complementary", { name: "Chosen database" });
  await chosen.getByText("as a branch of orders").waitFor();
  await walk.album.take(page, "database-branches");
  await chosen.getByRole("button", { name: "Compare with parent" }).click();
  await dialog(page)
    .locator("[data-diff=added]")
    .filter({ hasText: "price integer" })
    .waitFor(SERVER);
  await walk.album.take(page, "database-compare");
  await dialog(page).getByRole("button", { name: "Close" }).click();
}

/** The list, and the same as a picture. */
export async function list(walk, page, ids) {
  await goTo(page, "Databases");
  const rows = page.getByRole("table", { name: "Databases" });
  for (const id of ids) await rows.locator(`[data-row="${id}"]`).getByText("Running").waitFor();
  await walk.album.take(page, "databases");
  await page.getByRole("radiogroup", { name: "Shown as" }).getByText("Tree").click();
  for (const id of ids) await node(page, id).waitFor();
  await walk.album.take(page, "databases-tree");
}

/** The page of a database that failed. Only the answer for the page says so. */
export async function seeFailure(walk, page, id) {
  const address = (url) => url.pathname === `/v1/databases/${id}`;
  await page.route(address, async (route) => {
    const response = await route.fetch();
    const failure = {
      status: "failed",
      error: "its machine ended",
      failover_available: true,
      failover_eta_seconds: 40,
    };
    await route.fulfill({ response, json: { ...(await response.json()), ...failure } });
  });
  await page.goto(`${walk.url}/databases/${id}`);
  const card = section(page, "The database failed");
  await card.getByText("its machine ended").waitFor();
  await card.getByRole("button", { name: "Restart", exact: true }).waitFor();
  await walk.album.take(page, "database-failed");
  await card.getByRole("button", { name: "Rebuild from the archive" }).click();
  await dialog(page).getByText("Its disk as it is now").waitFor();
  await walk.album.take(page, "database-rebuild");
  await dialog(page).getByRole("button", { name: "Cancel" }).click();
  await page.unroute(address);
  await page.reload();
  await isRunning(page);
}

/** Deletes a database on its page. The dialog wants its name. */
export async function deleteFromPage(walk, page, id) {
  await page.goto(`${walk.url}/databases/${id}/settings`);
  await page.getByRole("button", { name: "Delete the database" }).click();
  await confirmDeletion(page, "try", () => walk.album.take(page, "delete-database"));
  await page.locator(`[data-row="${id}"]`).waitFor({ state: "detached" });
}

/** What can be restored: the window, its slider, and the backup that it begins with. */
export async function seeBackups(walk, page, id) {
  await page.goto(`${walk.url}/databases/${id}/backups`);
  await page.locator("[data-archive=ok]").waitFor();
  await page.getByRole("list", { name: "Base backups" }).getByRole("listitem").first().waitFor();
  const slider = page.getByRole("slider", { name: "Time to restore" });
  await slider.waitFor(WINDOW);
  await page
    .getByRole("button", { name: /^Choose the time of base-/ })
    .first()
    .click();
  const chosen = await page.locator("[data-chosen]").getAttribute("data-chosen");
  await page.getByText(`pandastack db clone ${id}`).waitFor();
  holds(`a time was chosen: ${chosen}`, Date.parse(chosen) <= Date.now());
  await page.getByRole("button", { name: "Latest" }).click();
  await slider.focus();
  await page.keyboard.press("Shift+ArrowLeft");
  await walk.album.take(page, "database-backups");
}

/** Deletes a database from the list. */
export async function deleteFromList(walk, page) {
  await goTo(page, "Databases");
  await page.getByRole("button", { name: "Delete orders" }).click();
  await confirmDeletion(page, "orders", () => undefined);
  await page.getByRole("heading", { name: "No databases yet" }).waitFor();
  same("databases", (await api(walk, "GET", "/v1/databases", walk.key)).body.count, 0);
}

async function confirmDeletion(page, name, look) {
  const confirm = dialog(page).getByRole("button", { name: "Delete the database" });
  holds("the name is wanted", await confirm.isDisabled());
  await dialog(page).getByRole("textbox").fill(name);
  await look();
  await confirm.click();
  await told(page, `Database ${name} deleted`);
}

async function isRunning(page) {
  await page.getByRole("main").getByText("Running", { exact: true }).first().waitFor(SERVER);
}

/** Replaces the text of the console, and runs it. */
async function runSql(page, sql) {
  await editor(page).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(sql);
  await page.keyboard.press("Control+Enter");
}

/** Machines of databases are no sandboxes in the list, the picture and the events, unless somebody asks. */
export async function seeNoMachines(walk, page, ids) {
  await goTo(page, "Sandboxes");
  await page.getByRole("heading", { name: "No sandboxes yet" }).waitFor();
  await walk.album.take(page, "sandboxes-of-databases-hidden");
  await page.getByRole("button", { name: "Show 2 machines of databases" }).click();
  for (const id of ids) await page.locator(`[data-row="${id}"]`).waitFor();
  await page.getByLabel("Kind").selectOption({ label: "Sandboxes" });
  for (const id of ids) await page.locator(`[data-row="${id}"]`).waitFor({ state: "detached" });
  await goTo(page, "Fork trees");
  await page.getByText("No forks yet").waitFor();
  await page.getByRole("radiogroup", { name: "Shown" }).getByText("With databases").click();
  const branch = node(page, ids[1]);
  await branch.getByText("postgres-16").waitFor();
  await branch.getByText("/h").waitFor();
  await walk.album.take(page, "fork-trees-with-databases");
  await goTo(page, "Overview");
  const events = page.locator("section").filter({ hasText: "Recent events" });
  await events.getByText("database changed").first().waitFor();
  holds("machines of databases are silent", (await events.getByText("started in").count()) === 0);
  await events.getByText("All machines").click();
  await events.getByText("started in").first().waitFor();
  holds(
    "no database tried to reach its host",
    !(await events.innerText()).includes("tried to reach"),
  );
  await goTo(page, "Templates");
  await page.locator('[data-template="postgres-16"]').getByText("databases: ready").waitFor();
  await goTo(page, "Databases");
}
