// Times commands over one socket: by plain frames, then by the SDK. Each line has both times in
// milliseconds. Arguments: the folder of the SDK, and how many commands.

import http from "node:http";
import { pathToFileURL } from "node:url";

const [folder, count] = [process.argv[2], Number(process.argv[3])];
const { Sandbox } = await import(pathToFileURL(`${folder}/dist/esm/index.js`));

/** A WebSocket that sends and receives one short text frame at a time. */
function open(url, key) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, {
      headers: {
        authorization: `Bearer ${key}`,
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
      },
    });
    request.on("error", reject);
    request.on("upgrade", (_, socket) => {
      socket.setNoDelay(true);
      resolve(socket);
    });
    request.end();
  });
}

function send(socket, value) {
  const text = Buffer.from(JSON.stringify(value));
  const mask = Buffer.from([1, 2, 3, 4]);
  const masked = text.map((byte, at) => byte ^ mask[at & 3]);
  socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length]), mask, masked]));
}

/** Waits for the frame that ends a command. All frames of `true` are short. */
function ended(socket, id) {
  return new Promise((resolve) => {
    let rest = Buffer.alloc(0);
    const take = (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      while (rest.length >= 2 && rest.length >= 2 + (rest[1] & 0x7f)) {
        const end = 2 + (rest[1] & 0x7f);
        const text = (rest[0] & 0x0f) === 1 ? rest.subarray(2, end).toString() : "{}";
        rest = rest.subarray(end);
        const frame = JSON.parse(text);
        if (frame.id === id && frame.exit !== undefined) {
          socket.off("data", take);
          resolve(frame.exit);
        }
      }
    };
    socket.on("data", take);
  });
}

const sandbox = await Sandbox.create({ template: "mini", ttlSeconds: 3600 });
const url = `${process.env.PANDASTACK_API}/v1/sandboxes/${sandbox.id}/exec/ws`;
const plain = await open(url, process.env.PANDASTACK_API_KEY);
const own = sandbox.execSocket();

async function timed(work) {
  const begun = performance.now();
  const exit = await work();
  if (exit !== 0) throw new Error(`the command ended with ${exit}`);
  return performance.now() - begun;
}

for (let at = 0; at < count; at++) {
  const byFrames = await timed(() => {
    const end = ended(plain, `c${at}`);
    send(plain, { id: `c${at}`, cmd: "true" });
    return end;
  });
  const bySdk = await timed(async () => (await own.exec("true")).exitCode);
  console.log(byFrames, bySdk);
}
plain.destroy();
await own.close();
await sandbox.kill();
