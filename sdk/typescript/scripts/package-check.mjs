// Packs the package, installs it into an empty project, and uses it there in every way.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const project = mkdtempSync(join(tmpdir(), "pandastack-package-"));
const run = (program, args, cwd = project) =>
  execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

const USE = `
const client = new PandaStack({ apiKey: "pds_x", baseUrl: "http://127.0.0.1:1" });
const names = [Sandbox, Volume, NotFoundError, verifyWebhook].map((one) => one.name).join();
if (names !== "Sandbox,Volume,NotFoundError,verifyWebhook") throw new Error(names);
if (new NotFoundError("x", 404).name !== "NotFoundError") throw new Error("name of an error");
client.me({ timeoutMs: 500 }).catch((error) => console.log(error.name));
`;
const NAMES = "PandaStack, Sandbox, Volume, NotFoundError, verifyWebhook";
const TYPES = `
const client: PandaStack = new PandaStack({ apiKey: process.env["KEY"] });
export async function work(signal: AbortSignal): Promise<string> {
  await using sandbox = await client.sandboxes.create({ template: "x", signal });
  const tree = await sandbox.forkTree(4);
  const ids: string[] = tree.branches.map(({ id }) => id);
  await tree.promote(ids[0] ?? "", { cleanupSiblings: true });
  for await (const { stream, data } of sandbox.stream("ls")) console.log(stream, data);
  const { exitCode } = await sandbox.exec(["ls"], { timeoutSeconds: 3 });
  // @ts-expect-error: the result has no such field
  console.log((await sandbox.exec("ls")).nothing);
  return exitCode === 0 ? await sandbox.filesystem.read("/x") : "";
}
declare const process: { env: Record<string, string | undefined> };
`;

try {
  run("npm", ["pack", "--silent", "--pack-destination", project], root);
  const archive = readdirSync(project).find((name) => name.endsWith(".tgz"));
  writeFileSync(join(project, "package.json"), '{ "name": "empty", "private": true }\n');
  run("npm", ["install", "--silent", "--offline", "--no-audit", "--no-fund", `./${archive}`]);
  const installed = readdirSync(join(project, "node_modules")).filter((name) => name[0] !== ".");
  if (installed.join() !== "@pandastack") throw new Error(`installed ${installed}`);

  writeFileSync(join(project, "use.mjs"), `import { ${NAMES} } from "@pandastack/sdk";${USE}`);
  writeFileSync(
    join(project, "use.cjs"),
    `const { ${NAMES}, default: Client } = require("@pandastack/sdk");${USE}
if (typeof Client !== "function") throw new Error("the default export is missing");`,
  );
  for (const file of ["use.mjs", "use.cjs"]) {
    const printed = run(process.execPath, [file]).trim();
    if (printed !== "NetworkError") throw new Error(`${file} printed ${printed}`);
  }

  const head = `import { PandaStack } from "@pandastack/sdk";`;
  writeFileSync(join(project, "types.mts"), head + TYPES);
  writeFileSync(join(project, "types.cts"), head + TYPES);
  writeFileSync(join(project, "types.ts"), head + TYPES);
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--noEmit", "--target", "es2022"];
  const lib = ["--lib", "es2023,dom,esnext.disposable", "--types", ""];
  const check = (...args) => run(process.execPath, [tsc, ...strict, ...lib, ...args]);
  check("--module", "nodenext", "types.mts", "types.cts");
  check("--module", "esnext", "--moduleResolution", "bundler", "types.ts");

  // A project for Node has the types of Node, and not those of browsers.
  const node = TYPES.replace(/^declare.*$/m, "");
  writeFileSync(join(project, "node.mts"), head + node);
  const nodeTypes = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  const nodeLib = ["--lib", "es2023,esnext.disposable", "--module", "nodenext"];
  run(process.execPath, [tsc, ...strict, ...nodeLib, ...nodeTypes, "node.mts"]);

  await build({
    absWorkingDir: project,
    entryPoints: ["use.mjs"],
    bundle: true,
    platform: "browser",
    write: false,
    logLevel: "error",
  });
  console.log("the package installs and works: ESM, CJS, types, browser bundle");
} finally {
  rmSync(project, { recursive: true });
}
