// Files of a sandbox: upload by button and by drag, edit, see, download.

import { readFile } from "node:fs/promises";
import { part, told } from "../walk/people.mjs";
import { holds, same, until } from "../walk/wait.mjs";

const NOTES = "# Notes\n\nprint('uploaded')\n";
const PICTURE = `<svg xmlns="http://www.w3.org/2000/svg" width="240" height="120" viewBox="0 0 240 120">
  <rect width="240" height="120" fill="#e8f3ec"/><circle cx="120" cy="60" r="40" fill="#3f9b63"/></svg>`;
const BYTES = Buffer.from(
  Uint8Array.from({ length: 300_000 }, (_, at) => (at * 31 + (at >> 8)) % 256),
);

export async function useFiles(walk, page) {
  await part(page, "Files");
  await page.getByRole("tree", { name: "Files of /root" }).waitFor();
  await page.getByLabel("Files to upload").setInputFiles([
    { name: "notes.py", mimeType: "text/x-python", buffer: Buffer.from(NOTES) },
    { name: "picture.svg", mimeType: "image/svg+xml", buffer: Buffer.from(PICTURE) },
  ]);
  await drop(page, "data.bin", BYTES);
  await entry(page, "data.bin").waitFor();

  await entry(page, "data.bin").click();
  same("the downloaded bytes", (await download(page, "Download data.bin")).equals(BYTES), true);
  await entry(page, "picture.svg").click();
  await shownPicture(page.getByRole("img", { name: "picture.svg" }));
  await edit(page);
  await walk.album.take(page, "sandbox-files");
}

/** Adds a line, saves it, and downloads the file as it is now. */
async function edit(page) {
  await entry(page, "notes.py").click();
  const editor = page.getByRole("textbox", { name: "Content of notes.py" });
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("print('edited')\n");
  await page.getByText("not saved", { exact: true }).waitFor();
  await page.keyboard.press("Control+s");
  await told(page, "notes.py saved");
  const saved = await download(page, "Download", { exact: true });
  same("the downloaded text", saved.toString(), `${NOTES}print('edited')\n`);
}

/** A change that a program of the sandbox makes, appears by itself. */
export async function seeChange(page, run) {
  await run("echo made by a program > /root/live.txt");
  await entry(page, "live.txt").waitFor();
}

function entry(page, name) {
  return page.getByRole("treeitem", { name });
}

/** Drops a file on the list, as a mouse does. */
async function drop(page, name, bytes) {
  const transfer = await page.evaluateHandle(
    ([title, content]) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(content), (one) => one.charCodeAt(0))], title));
      return data;
    },
    [name, bytes.toString("base64")],
  );
  await page.dispatchEvent("[role=tree]", "drop", { dataTransfer: transfer });
}

async function download(page, name, options) {
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name, ...options }).click(),
  ]);
  return readFile(await file.path());
}

/** Waits until a picture is drawn. */
export async function shownPicture(image) {
  await image.waitFor();
  await until("the picture is loaded", () =>
    image.evaluate((one) => one.complete && one.naturalWidth > 0),
  );
  holds("the picture has a size", (await image.boundingBox()).width > 50);
}
