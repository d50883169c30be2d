// What a client of ours sees when the server is killed and started again while output flows.
// Prints `ready` when output flows, and at the end what it saw as JSON.
// Argument: the folder of the SDK.

import { pathToFileURL } from "node:url";

const { PandaStack } = await import(pathToFileURL(`${process.argv[2]}/dist/esm/index.js`));

const COUNT = "for i in $(seq 1 40); do echo line $i; sleep 0.2; done; exit 7";
const ENDLESS = "while :; do echo tick; sleep 0.1; done";
const LINES = Array.from({ length: 40 }, (_, i) => `line ${i + 1}\n`).join("");

const client = new PandaStack({ timeoutMs: 60_000 });
const sandbox = await client.sandboxes.create({ template: "mini", ttlSeconds: 600 });
const socket = sandbox.execSocket();

/** Runs work that says when its first output is there. */
function flowing(work) {
  let flows;
  const first = new Promise((resolve) => {
    flows = resolve;
  });
  return { first, end: work(flows) };
}

const outcome = (running) =>
  running.then(
    () => "ended",
    (error) => `${error.name} ${error.stdout?.startsWith("tick\n") ?? false}`,
  );

async function follow(flows) {
  const process = await sandbox.spawn(COUNT);
  let [text, exitCode] = ["", undefined];
  for await (const event of process.follow()) {
    flows();
    if (event.type === "stdout") text += event.data;
    if (event.type === "exit") exitCode = event.exitCode;
  }
  return { lines: text === LINES, exitCode };
}

const all = [
  // A command whose connection is lost: its end is not known, and the error says so.
  flowing((flows) => outcome(sandbox.stream(ENDLESS, { onStdout: flows }).wait())),
  flowing((flows) => outcome(socket.exec(ENDLESS, { onStdout: flows }))),
  // A process that outlives its connection: its output goes on where it broke.
  flowing(follow),
  flowing((flows) => socket.exec(COUNT, { resumable: true, onStdout: flows })),
];
await Promise.all(all.map(({ first }) => first));
console.log("ready");
const [stream, onSocket, followed, resumed] = await Promise.all(all.map(({ end }) => end));
const seen = {
  stream,
  onSocket,
  ...followed,
  resumed: resumed.stdout === LINES && resumed.exitCode,
  afterwards: (await socket.exec("echo again")).stdout,
};
await socket.close();
await sandbox.kill();
console.log(JSON.stringify(seen));
