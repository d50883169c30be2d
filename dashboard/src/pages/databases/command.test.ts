import { expect, test } from "vitest";
import { createCommand } from "./command";

test("the command says what differs from the default", () => {
  expect(createCommand({ label: "", size: "1g", always_on: false })).toBe("pandastack db create");
  expect(createCommand({ label: "my app", size: "4g", always_on: true })).toBe(
    "pandastack db create --label 'my app' --size 4g --always-on",
  );
});
