import { expect, test } from "vitest";
import { languageOf } from "./languages";

test("the language follows the name of the file", () => {
  expect(languageOf("/app/main.py")).toBe("python");
  expect(languageOf("/app/Dockerfile")).toBe("dockerfile");
  expect(languageOf("/root/.bashrc")).toBe("shell");
  expect(languageOf("/x/Makefile")).toBe("shell");
  expect(languageOf("/x/README")).toBe("text");
  expect(languageOf("/x/a.TSX")).toBe("typescript");
});
