// The licences of the packages that the page is made of. `node scripts/licences.mjs` checks them;
// the build writes their texts to licences.txt, because most of them ask for that.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const ALLOWED = new Set([
  "MIT",
  "ISC",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "Apache-2.0",
  "0BSD",
  "Unlicense",
]);

/** Every package that may be bundled: all but those for development. */
export function packages() {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  return Object.entries(lock.packages)
    .filter(([path, { dev, optional }]) => path.startsWith("node_modules/") && !dev && !optional)
    .map(([path]) => describe(path));
}

function describe(path) {
  const folder = join(root, path);
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((one) => /^(licen[cs]e|copying)/i.test(one));
  const text = file === undefined ? "" : readFileSync(join(folder, file), "utf8");
  return { name, version, license: license ?? "unknown", text: text.trim() };
}

/** The packages whose licence nobody has agreed to. */
export function refused(all) {
  return all.filter(({ license }) => !ALLOWED.has(license));
}

/** The file with all texts. */
export function licencesText(all) {
  const parts = all.map(
    ({ name, version, license, text }) => `${name} ${version} (${license})\n\n${text || license}\n`,
  );
  return `The dashboard contains these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const all = packages();
  const bad = refused(all);
  for (const { name, version, license } of bad) {
    console.error(`licences: ${name} ${version} has the licence ${license}; use another package`);
  }
  console.log(`licences: ${all.length} packages, ${bad.length} refused`);
  process.exit(bad.length === 0 ? 0 : 1);
}
