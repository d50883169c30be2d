// Runs the tests of one folder: `node scripts/test.mjs unit` or `live`.
import { spawn } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [folder = "unit", ...options] = process.argv.slice(2);
if (folder === "live" && !(process.env.PANDASTACK_API && process.env.PANDASTACK_API_KEY)) {
  console.error("The live tests need a server: set PANDASTACK_API and PANDASTACK_API_KEY.");
  process.exit(1);
}
const files = readdirSync(join(root, "test", folder)).filter((name) => name.endsWith(".test.ts"));
const out = join(root, ".test", folder);
rmSync(out, { recursive: true, force: true });
await build({
  absWorkingDir: root,
  entryPoints: files.map((name) => `test/${folder}/${name}`),
  outdir: out,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  sourcemap: "inline",
  external: ["node:*"],
});
const tests = files.map((name) => join(out, name.replace(/\.ts$/, ".js")));
const limit = folder === "live" ? ["--test-concurrency=1"] : [];
const args = ["--enable-source-maps", "--test", "--test-timeout=300000", ...limit, ...options];
const run = spawn(process.execPath, [...args, ...tests], { cwd: root, stdio: "inherit" });
run.on("exit", (code) => process.exit(code ?? 1));
