import assert from "node:assert/strict";
import { test } from "node:test";
import {
  closePayload,
  encodeFrame,
  FrameError,
  FrameReader,
  type Message,
} from "../../src/socket/frames.js";
import { serverFrame } from "../stand-in.js";

const LIMIT = 1024 * 1024;

function read(bytes: Uint8Array, limit = LIMIT): Message[] {
  return new FrameReader(limit).push(bytes);
}

test("a frame of a client is masked, at every length of its head", () => {
  for (const size of [0, 1, 125, 126, 65_535, 65_536, 70_000]) {
    const payload = Buffer.alloc(size, 7);
    const mask = Uint8Array.of(1, 2, 3, 4);
    const frame = Buffer.from(encodeFrame(0x2, payload, mask));
    assert.equal((frame[1] as number) & 0x80, 0x80);
    const head = size < 126 ? 2 : size < 65_536 ? 4 : 10;
    assert.deepEqual([...frame.subarray(head, head + 4)], [1, 2, 3, 4]);
    const plain = Buffer.from(frame.subarray(head + 4)).map((byte, at) => byte ^ ((at & 3) + 1));
    assert.ok(Buffer.from(plain).equals(payload));
  }
});

test("messages are the same wherever their bytes are split", () => {
  const bytes = Buffer.concat([
    serverFrame(0x1, Buffer.from("hé€😀llo")),
    serverFrame(0x1, Buffer.from([0xc3]), false),
    serverFrame(0x9, Buffer.from("are you there")),
    serverFrame(0x0, Buffer.from([0xa9])),
    serverFrame(0x2, Buffer.alloc(200, 1)),
    serverFrame(0x8, Buffer.from(closePayload(1001, "bye"))),
  ]);
  const expected = read(bytes);
  assert.deepEqual(
    expected.map(({ kind }) => kind),
    ["text", "ping", "text", "binary", "close"],
  );
  assert.deepEqual(expected[2], { kind: "text", text: "é" });
  assert.deepEqual(expected[4], { kind: "close", code: 1001, reason: "bye" });
  for (let at = 0; at <= bytes.length; at++) {
    const reader = new FrameReader(LIMIT);
    const parts = [...reader.push(bytes.subarray(0, at)), ...reader.push(bytes.subarray(at))];
    assert.deepEqual(parts, expected, `split at byte ${at}`);
  }
});

test("what a server must not send is refused with the right code", () => {
  const check = (code: number, bytes: Uint8Array): void => {
    assert.throws(
      () => read(bytes),
      (error: unknown) => error instanceof FrameError && error.code === code,
    );
  };
  const masked = encodeFrame(0x1, Buffer.from("x"), Uint8Array.of(1, 2, 3, 4));
  check(1002, masked);
  check(1002, Buffer.from([0xc1, 0x00]));
  check(1002, serverFrame(0x3, Buffer.alloc(0)));
  check(1002, serverFrame(0x9, Buffer.alloc(126)));
  check(1002, serverFrame(0x9, Buffer.alloc(1), false));
  check(1002, serverFrame(0x0, Buffer.alloc(1)));
  check(1002, serverFrame(0x8, Buffer.alloc(1)));
  check(
    1002,
    Buffer.concat([serverFrame(0x1, Buffer.alloc(1), false), serverFrame(0x1, Buffer.alloc(1))]),
  );
  check(1007, serverFrame(0x1, Buffer.from([0xff])));
});

test("a message is bounded, before its bytes arrive and over all its fragments", () => {
  const head = Buffer.from([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0]);
  const check = (bytes: Uint8Array): void => {
    assert.throws(
      () => read(bytes, 100),
      (error: unknown) => error instanceof FrameError && error.code === 1009,
    );
  };
  check(head);
  check(Buffer.from([0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255]));
  check(
    Buffer.concat([serverFrame(0x2, Buffer.alloc(60), false), serverFrame(0x0, Buffer.alloc(60))]),
  );
});
