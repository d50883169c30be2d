import { expect, test } from "vitest";
import { archiveLook } from "./archive";

const NONE = { pending_segments: 0, pending_bytes: 0 };

test("a healthy archive says little", () => {
  expect(archiveLook({ health: "ok", ...NONE })).toEqual({
    tone: "ok",
    title: "The archive is up to date",
    text: "",
  });
});

test("what goes wrong is named with its cause and what it means", () => {
  const behind = archiveLook({ health: "behind", pending_segments: 3, pending_bytes: 3 << 24 });
  expect(behind.tone).toBe("warn");
  expect(behind.text).toBe(
    "3 pieces of the log (48 MiB) wait on this host. The latest changes cannot be restored yet.",
  );
  const failing = archiveLook({ health: "failing", ...NONE, error: "the disk is full. " });
  expect(failing.tone).toBe("danger");
  expect(failing.text).toBe(
    "The disk is full. Until it works again, new changes exist only on this host.",
  );
  expect(archiveLook({ health: "off", ...NONE }).tone).toBe("info");
  expect(archiveLook({ health: "new", ...NONE }).title).toBe("The archive is new");
});
