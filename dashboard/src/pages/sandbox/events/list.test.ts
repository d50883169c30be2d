import { expect, test } from "vitest";
import { deniedTargets, eventTone, shortPayload, withEvent } from "./list";

test("new events come first", () => {
  const one = { kind: "a", ts: "1", payload: {} };
  expect(withEvent([one], { ...one, kind: "b" }).map(({ kind }) => kind)).toEqual(["b", "a"]);
});

test("refused destinations are listed once", () => {
  const denied = (target: string, ts: string) => ({
    kind: "egress.denied",
    ts,
    payload: { target },
  });
  const list = deniedTargets([denied("b:443", "3"), denied("a:80", "2"), denied("b:443", "1")]);
  expect(list).toEqual([
    { target: "b:443", ts: "3", times: 2 },
    { target: "a:80", ts: "2", times: 1 },
  ]);
});

test("a payload fits in a line", () => {
  expect(shortPayload({ a: 1, b: ["x"] })).toBe('a=1 b=["x"]');
  expect(eventTone("sandbox.wake_failed")).toBe("danger");
  expect(eventTone("sandbox.hibernated")).toBe("sleep");
});
