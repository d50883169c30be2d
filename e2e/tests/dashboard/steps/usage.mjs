// The bill: what the machines of this walk used.

import { asPage, goTo } from "../walk/people.mjs";
import { holds, same, until } from "../walk/wait.mjs";

/** The page shows the CPU time of the template, as the API counts it. */
export async function readBill(walk, page) {
  // The server counts every minute; this is now.
  same("the usage is counted", (await asPage(page, "POST", "/v1/billing/sync")).status, 200);
  await goTo(page, "Usage");
  await page.getByRole("radiogroup", { name: "Split" }).getByText("By template").click();
  const row = page.getByRole("table", { name: "Usage by template" }).locator('[data-row="mini"]');
  await row.waitFor();
  const text = (await row.innerText()).replace(/\s+/g, " ");
  const [, cpu] = text.match(/mini ([\d.]+) h/) ?? [];
  holds(`machines of this walk ran for some seconds: ${text}`, Number(cpu) * 3600 > 5);
  await page.getByRole("radiogroup", { name: "Split" }).getByText("By day").click();
  await page.getByRole("img", { name: "Cost of each day" }).waitFor();
  await until("the chart is drawn", () => page.locator("canvas").first().isVisible());
  await walk.album.take(page, "usage");
}
