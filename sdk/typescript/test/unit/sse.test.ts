import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, eventObject, type ServerEvent } from "../../src/sse.js";

const TEXT =
  ': ping\r\n\r\nevent: stdout\r\ndata: {"chunk":"é€😀"}\r\n\r\n' +
  'id: 7\nevent: exit\ndata: {"exit_code":0}\n\n' +
  "data: a\rdata: b\r\revent: empty\n\ndata\n\n";
const EXPECTED: ServerEvent[] = [
  { event: "stdout", data: '{"chunk":"é€😀"}', id: undefined },
  { event: "exit", data: '{"exit_code":0}', id: "7" },
  { event: "message", data: "a\nb", id: "7" },
  { event: "message", data: "", id: "7" },
];

test("events are the same wherever their bytes are split", () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (let at = 0; at <= bytes.length; at++) {
    const parser = new EventParser();
    const events = [...parser.push(bytes.subarray(0, at)), ...parser.push(bytes.subarray(at))];
    assert.deepEqual(events, EXPECTED, `split at byte ${at}`);
  }
});

test("events are the same if every byte comes alone", () => {
  const parser = new EventParser();
  const bytes = new TextEncoder().encode(TEXT);
  const events = [...bytes].flatMap((byte) => parser.push(Uint8Array.of(byte)));
  assert.deepEqual(events, EXPECTED);
});

test("an event that is not an object is an error that shows it", () => {
  for (const data of ["", "nope", "3", "null"]) {
    assert.throws(() => eventObject({ event: "exit", data, id: undefined }), /exit/);
  }
});
