// The JavaScript kernel of a code context. Speaks as python.py does. Started by boot.js.
//
// Cells are scripts of one global scope, so what they declare stays. A script cannot `await`: a cell that does is run as a
// function, and its declarations at the beginning of a line become assignments, so that they stay too.
//
// Request 0 makes this a warm kernel: it runs the code. A second request 0 hands it out: MODE, folder and variables with a NUL
// after each. Then it runs cells.
const fs = require("fs");
const net = require("net");
const os = require("os");
const util = require("util");
const path = require("path");
const vm = require("vm");

const TEXT_BYTES_MAX = 1024 * 1024;
const control = new net.Socket({ fd: 0, readable: true, writable: true });
globalThis.require = require("module").createRequire(path.join(process.cwd(), "/"));

let finish = null; // ends the cell that runs
const answer = (number, exit, body) => {
  const data = body ? Buffer.from(JSON.stringify(body)) : Buffer.alloc(0);
  control.write(Buffer.concat([Buffer.from(`${number} ${exit} ${data.length}\n`), data]));
};
const shorten = (text) => (text.length > TEXT_BYTES_MAX ? text.slice(0, TEXT_BYTES_MAX) + "\n[truncated]" : text);
const describe = (error) => shorten(error instanceof Error ? error.stack || String(error) : `Uncaught ${util.inspect(error)}`);
const shown = (value) => {
  const forms = { "text/plain": shorten(util.inspect(value)) };
  if (value !== null && typeof value === "object") {
    try {
      const json = JSON.stringify(value);
      if (json && json.length <= TEXT_BYTES_MAX) forms["application/json"] = json;
    } catch {} // cycles have no JSON
  }
  return forms;
};

const evaluate = (source, filename) => {
  const options = { filename, breakOnSigint: true };
  try {
    return vm.runInThisContext(source, options);
  } catch (error) {
    if (!(error instanceof SyntaxError) || !/\bawait\b/.test(source)) throw error;
  }
  const attempt = (text) => vm.runInThisContext(`(async () => {${text}\n})()`, options);
  try {
    return attempt(`return (${source.trim().replace(/;$/, "")}\n)`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return attempt(source.replace(/^(?:const|let|var)\s+(?=[A-Za-z_$][\w$]*\s*=)/gm, ""));
  }
};

const run = async (number, source) => {
  let end;
  const ended = new Promise((done) => (end = done));
  finish = (error) => end([1, { results: [], error: describe(error) }]);
  const exit = process.exit;
  process.exit = (code) => {
    end([Number(code ?? process.exitCode ?? 0) || 0, null]);
    throw new Error("the cell has ended");
  };
  const work = async () => {
    const value = await evaluate(source, `<cell ${number}>`);
    return [0, value === undefined ? null : { results: [shown(value)] }];
  };
  work().then(end, finish);
  const [code, body] = await ended;
  finish = null;
  process.exit = exit;
  answer(number, code, body);
};

// An interrupt that finds no synchronous code to stop ends the waiting cell.
process.on("SIGINT", () => finish?.(new Error("interrupted")));
process.on("uncaughtException", (error) => (finish ? finish(error) : console.error(describe(error))));
process.on("unhandledRejection", (error) => (finish ? finish(error) : console.error(describe(error))));

// Gives Math.random a state of its own: that of the engine is equal in all copies of a machine. xoshiro128**, 53 bits.
const reseed = () => {
  const urandom = fs.openSync("/dev/urandom");
  const bytes = Buffer.alloc(16);
  fs.readSync(urandom, bytes, 0, 16);
  fs.closeSync(urandom);
  let [a, b, c, d] = [0, 4, 8, 12].map((at) => bytes.readInt32LE(at));
  const next = () => {
    const mixed = Math.imul(b, 5);
    const result = Math.imul((mixed << 7) | (mixed >>> 25), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 11) | (d >>> 21);
    return result;
  };
  const random = { random: () => ((next() >>> 5) * 0x4000000 + (next() >>> 6)) / 0x20000000000000 }.random;
  Object.defineProperty(Math, "random", { value: random, writable: true, enumerable: false, configurable: true });
};

let warm = false;
const warmUp = async (source) => {
  os.setPriority(19); // nobody waits for it
  try {
    await new Function("require", `return (async () => {${source}\n})()`)(require);
  } catch (error) {
    return [1, Buffer.from(describe(error))];
  }
  warm = true;
  return [0, Buffer.alloc(0)];
};
const handOut = (request) => {
  const [, folder, ...variables] = request.split("\0").slice(0, -1);
  const wanted = new Map(variables.map((variable) => [variable.split("=", 1)[0], variable.slice(variable.indexOf("=") + 1)]));
  for (const name of Object.keys(process.env)) if (!wanted.has(name)) delete process.env[name];
  for (const [name, value] of wanted) process.env[name] = value;
  try {
    process.chdir(folder);
  } catch {
    process.chdir("/");
  }
  globalThis.require = require("module").createRequire(path.join(process.cwd(), "/"));
  reseed();
  os.setPriority(0);
};
const serveWarm = async (source) => {
  const [exit, body] = warm ? [0, Buffer.alloc(0)] : await warmUp(source);
  if (warm && source.startsWith("cells\0")) handOut(source);
  control.write(Buffer.concat([Buffer.from(`0 ${exit} ${body.length}\n`), body]));
};

const serve = async () => {
  let data = Buffer.alloc(0);
  for await (const piece of control) {
    data = Buffer.concat([data, piece]);
    for (;;) {
      const cut = data.indexOf(10);
      if (cut < 0) break;
      const [number, size, trace] = data.subarray(0, cut).toString().split(" ");
      const length = Number(size);
      if (data.length < cut + 1 + length) break;
      const source = data.subarray(cut + 1, cut + 1 + length).toString();
      data = data.subarray(cut + 1 + length);
      if (trace) process.env.TRACEPARENT = trace;
      await (number === "0" ? serveWarm(source) : run(Number(number), source));
    }
  }
  process.exit(0);
};
answer(0, 0, null);
serve();
