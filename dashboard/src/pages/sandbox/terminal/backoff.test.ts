import { expect, test } from "vitest";
import { afterCut, INPUT_KEPT_CHARS, keepInput, WAIT_MS_MAX, waitBefore } from "./backoff";

test("waits grow up to a limit and are spread", () => {
  expect(waitBefore(1, 0.5)).toBe(500);
  expect(waitBefore(3, 0.5)).toBe(2000);
  expect(waitBefore(50, 0.5)).toBe(WAIT_MS_MAX);
  expect(waitBefore(1, 0)).toBeLessThan(waitBefore(1, 1));
});

test("a sleeping sandbox is not woken by a reconnect", () => {
  expect(afterCut("hibernating")).toBe("asleep");
  expect(afterCut("paused")).toBe("paused");
  expect(afterCut("deleted")).toBe("gone");
  expect(afterCut("running")).toBe("retry");
});

test("input is kept up to a limit", () => {
  expect(keepInput("ls", "\r")).toBe("ls\r");
  const full = "x".repeat(INPUT_KEPT_CHARS);
  expect(keepInput(full, "y")).toBe(full);
});
