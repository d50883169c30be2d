import { expect, it } from "vitest";
import { eventText } from "./eventText";

it.each([
  ["sandbox.running", { boot_ms: 12 }, "started in 12 ms"],
  ["sandbox.deleted", { reason: "idle" }, "deleted, because it was idle"],
  ["sandbox.forked", { children: ["5c0f1a2b-3333-4444"] }, "forked to 5c0f1a2b"],
  ["sandbox.forked", { children: ["a", "b", "c"] }, "forked into 3"],
  ["egress.denied", { target: "example.com:443" }, "tried to reach example.com:443"],
  ["volume.changed", { name: "data" }, "volume changed: data"],
  ["moon.rose", {}, "moon rose"],
])("%s %j reads “%s”", (kind, payload, text) => {
  expect(eventText(kind, payload).text).toBe(text);
});
