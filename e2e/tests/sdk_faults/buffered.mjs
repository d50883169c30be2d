// What a client of ours sees behind a proxy that holds every answer back until it is complete.
// Prints what it saw as JSON. Argument: the folder of the SDK.

import { pathToFileURL } from "node:url";

const { PandaStack } = await import(pathToFileURL(`${process.argv[2]}/dist/esm/index.js`));

const ENDLESS = "while :; do echo tick; sleep 0.1; done";

const client = new PandaStack({ timeoutMs: 60_000 });
const sandbox = await client.sandboxes.create({ template: "mini", ttlSeconds: 600 });
const socket = sandbox.execSocket({ connectTimeoutMs: 30_000 });

/** What work returned, or the name of its error. */
const attempt = (work) => work().catch((error) => error.name);

const seen = {
  exec: await attempt(async () => (await sandbox.exec("echo one")).stdout),
  stream: await attempt(async () => (await sandbox.stream("echo one; sleep 0.5; echo two").wait()).stdout),
  process: await attempt(async () => (await (await sandbox.spawn("echo one; sleep 0.5; exit 3")).wait()).exitCode),
  endless: await attempt(async () => (await sandbox.stream(ENDLESS, { timeoutMs: 10_000 }).wait()).stdout),
  written: await attempt(async () => (await sandbox.filesystem.write("/srv/file", "x".repeat(100_000))) && null),
  read: await attempt(async () => (await sandbox.filesystem.readBytes("/srv/file")).length),
  socket: await attempt(async () => (await socket.exec("echo one")).stdout),
};
await socket.close();
await sandbox.kill();
console.log(JSON.stringify(seen));
