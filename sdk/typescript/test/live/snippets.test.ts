/** The code blocks of the product pages, run as printed. Only the names of templates are others. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { client, TEMPLATE } from "./server.js";

const folder = mkdtempSync(join(tmpdir(), "pandastack-snippets-"));
after(() => rmSync(folder, { recursive: true }));

/**
 * Large templates are replaced by a small one, which gets a `python` as theirs have. What was made
 * is told for the cleaning up.
 */
const PRELOAD = `
const send = globalThis.fetch;
globalThis.fetch = async (url, init) => {
  if (typeof init?.body === "string") {
    init.body = init.body.replace(/"template":"[^"]+"/, '"template":"${TEMPLATE}"');
  }
  const response = await send(url, init);
  if (init?.method === "POST" && /\\/(sandboxes|fork|fork-tree)$/.test(String(url))) {
    const body = await response.clone().json();
    const made = [body, body.sandbox, ...(body.children ?? [])];
    for (const one of made) if (one?.template) console.error("made", one.id);
    if (String(url).endsWith("/sandboxes")) {
      const cmd = "command -v python || ln -s $(command -v python3) /usr/bin/python";
      await send(url + "/" + body.id + "/exec", { ...init, body: JSON.stringify({ cmd }) });
    }
  }
  return response;
};
`;
const SETTING = `
import { PandaStack } from "@pandastack/sdk";
const client = new PandaStack();
const runEval = async (sandbox) => ({ sandboxId: sandbox.id });
`;

async function run(name: string, before = ""): Promise<string> {
  const modules = join(folder, "node_modules/@pandastack");
  mkdirSync(modules, { recursive: true });
  rmSync(join(modules, "sdk"), { force: true });
  symlinkSync(process.cwd(), join(modules, "sdk"));
  writeFileSync(join(folder, "preload.mjs"), PRELOAD);
  const file = join(folder, `${name}.mjs`);
  writeFileSync(file, before + readFileSync(`test/live/snippets/${name}.js`, "utf8"));
  const work = promisify(execFile)(
    process.execPath,
    ["--import", join(folder, "preload.mjs"), file],
    { cwd: folder, timeout: 200_000 },
  );
  const { stdout, stderr } = await work.catch((error: { stdout: string; stderr: string }) => error);
  const made = stderr.split("\n").filter((line) => line.startsWith("made "));
  for (const line of new Set(made)) {
    await client.sandboxes.delete(line.slice(5)).catch(() => undefined);
  }
  assert.equal(stderr.replace(/^made .*\n/gm, ""), "");
  return stdout;
}

test("the fork tree of the features page", async () => {
  await run("features", SETTING);
});

test("create, exec, files and fork of the comparison with Vercel Sandbox", async () => {
  assert.equal(await run("vercel-sandbox"), "1024\n\nhello from inside the VM\n");
});
