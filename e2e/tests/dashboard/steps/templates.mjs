// A template from a Dockerfile, with its log as it grows.

import { dialog, goTo } from "../walk/people.mjs";

const DOCKERFILE = "FROM mini\nENV GREETING=hello\nRUN echo built on $(uname -s)\n";

export async function startBuild(walk, page) {
  await goTo(page, "Templates");
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await dialog(page).getByLabel("Name").fill("tools");
  await dialog(page).getByLabel("Dockerfile", { exact: true }).last().fill(DOCKERFILE);
  await walk.album.take(page, "build-template");
  await dialog(page).getByRole("button", { name: "Build", exact: true }).click();
  await dialog(page).getByRole("heading", { name: "Build of tools" }).waitFor();
}

/** Watches the log until the template is there. */
export async function watchBuild(walk, page) {
  const log = page.getByRole("log", { name: "Log of the build" });
  await log.getByText("built on Linux").waitFor();
  await dialog(page).getByRole("button", { name: "Start a sandbox from it" }).waitFor();
  await walk.album.take(page, "build-log");
  await page.keyboard.press("Escape");
  await page.locator("[data-template=tools]").waitFor();
}
