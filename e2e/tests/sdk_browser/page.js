// What a page does with our SDK. It is a plain module, without a bundler.

import { NotFoundError, PandaStack } from "/sdk.js";

async function failureOf(work) {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("it should have failed");
}

/** Runs a command until its first output, then gives up by a signal. */
async function abortedStream(sandbox) {
  const stop = new AbortController();
  const endless = sandbox.stream("echo tick; exec sleep 1000", { signal: stop.signal });
  for await (const { data } of endless) {
    if (data.includes("tick")) stop.abort(new Error("enough"));
  }
}

async function onSocket(sandbox) {
  const socket = sandbox.execSocket();
  const many = await Promise.all([1, 2, 3, 4].map((n) => socket.exec(["echo", `number ${n}`])));
  const cat = socket.start("cat", { stdin: true });
  await cat.write("input é");
  await cat.closeStdin();
  const { stdout } = await cat.wait();
  const stop = new AbortController();
  const sleeping = socket.exec("exec sleep 1000", { signal: stop.signal });
  stop.abort(new Error("enough"));
  const aborted = (await failureOf(sleeping)).message;
  await socket.close();
  return { many: many.map((one) => one.stdout).join(""), stdin: stdout, aborted };
}

async function files({ filesystem }) {
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  await filesystem.write("/tmp/bytes", bytes);
  const read = await filesystem.readBytes("/tmp/bytes");
  await filesystem.write("/tmp/text", new Blob(["héllo"]));
  // More than is sent as one piece, with progress.
  const large = new Blob([new Uint8Array(3_000_000).fill(7)]);
  let progress = 0;
  await filesystem.write("/tmp/large", large.stream(), {
    onProgress: (now) => {
      progress = now.bytes;
    },
  });
  const { size } = await filesystem.stat("/tmp/large");
  const local = await failureOf(filesystem.upload("notes.txt", "/tmp/notes.txt"));
  return {
    same: read.length === 256 && read.every((byte, at) => byte === bytes[at]),
    text: await filesystem.read("/tmp/text"),
    large: [size, progress],
    local: local.message,
  };
}

/**
 * Options of a client for a person who has logged in and acts in an organisation that is not the
 * current one. A page has a session instead of a secret key.
 */
async function session(baseUrl, operatorKey) {
  const operator = new PandaStack({ baseUrl, apiKey: operatorKey });
  const account = { email: "ada@example.com", password: "correct horse battery" };
  const { token } = await operator.auth.setUp(account);
  const person = new PandaStack({ baseUrl, apiKey: token });
  const [first] = await person.orgs.list();
  const org = (await person.orgs.create("Pages")).id;
  await person.orgs.use(first.id);
  return { baseUrl, apiKey: token, org };
}

/** A worker has no window. */
function inWorker(options, id) {
  return new Promise((resolve, reject) => {
    const worker = new Worker("/worker.js", { type: "module" });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`the worker failed: ${message}`));
    worker.postMessage({ options, id });
  });
}

globalThis.work = async (baseUrl, operatorKey) => {
  const options = await session(baseUrl, operatorKey);
  const client = new PandaStack(options);
  const sandbox = await client.sandboxes.create({ template: "mini", ttlSeconds: 600 });
  const pieces = [];
  const ran = await sandbox.exec("cat; exit 3", { stdin: "from a page\n" });
  for await (const { stream, data } of sandbox.stream("echo out; sleep 0.2; echo err >&2")) {
    pieces.push([stream, data]);
  }
  const missing = await failureOf(sandbox.filesystem.read("/nothing"));
  const terminal = await sandbox.terminal({ cmd: "stty size", rows: 12, cols: 34 });
  let drawn = "";
  for await (const data of terminal) drawn += new TextDecoder().decode(data);
  const seen = {
    secure: isSecureContext,
    exec: [ran.stdout, ran.exitCode],
    python: (await sandbox.runCode("print(6 * 7)", "python")).stdout,
    pieces,
    files: await files(sandbox),
    socket: await onSocket(sandbox),
    terminal: drawn.trim(),
    missing: [missing instanceof NotFoundError, missing.name, missing.status, missing.code],
    requestId: typeof missing.requestId === "string" && missing.requestId !== "",
    aborted: (await failureOf(abortedStream(sandbox))).message,
    early: (await failureOf(sandbox.exec("true", { signal: AbortSignal.abort() }))).name,
    worker: await inWorker(options, sandbox.id),
  };
  await sandbox.kill();
  seen.deleted = (await failureOf(client.sandboxes.get(sandbox.id))).name;
  // A browser does not tell a page why a socket was refused. The SDK finds out.
  seen.refused = (await failureOf(sandbox.execSocket().connect())).name;
  return seen;
};
