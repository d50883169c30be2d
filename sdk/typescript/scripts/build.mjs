// Builds dist/esm and dist/cjs: one bundle each, with the same type declarations beside it.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const dist = join(root, "dist");
rmSync(dist, { recursive: true, force: true });
execFileSync(
  process.execPath,
  [join(root, "node_modules/typescript/bin/tsc"), "--emitDeclarationOnly", "-p", root],
  { stdio: "inherit" },
);
for (const format of ["esm", "cjs"]) {
  await build({
    absWorkingDir: root,
    entryPoints: ["src/index.ts"],
    outfile: `dist/${format}/index.js`,
    bundle: true,
    format,
    platform: "neutral",
    target: "es2022",
    // The node: modules are only loaded where they exist.
    external: ["node:*"],
    legalComments: "none",
    // The names of classes are shown, in errors above all.
    keepNames: true,
  });
}
mkdirSync(join(dist, "cjs"), { recursive: true });
cpSync(join(dist, "esm"), join(dist, "cjs"), {
  recursive: true,
  filter: (path) => !path.endsWith(".js"),
});
writeFileSync(join(dist, "cjs/package.json"), '{ "type": "commonjs" }\n');
