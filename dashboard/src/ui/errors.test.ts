import { AuthError, ConflictError } from "@pandastack/sdk";
import { expect, it } from "vitest";
import { errorParts } from "./errors";

const requestId = "req-1";

function refusal(message: string, code: string): AuthError {
  return new AuthError(message, 401, undefined, { code, requestId });
}

it("a wrong password is a sentence, and only the code says unauthorized", () => {
  const error = refusal("unauthorized: the password is wrong", "unauthorized");
  const text = "The password is wrong.";
  expect(errorParts(error)).toEqual({ text, code: "unauthorized", requestId });
});

it.each([
  ["unauthorized: ask for a new link.", "preview.bad_token", "Ask for a new link."],
  ["volume.in_use: a sandbox has it", "volume.in_use", "A sandbox has it."],
])("the word for programs is taken off %j", (message, code, text) => {
  expect(errorParts(refusal(message, code))).toEqual({ text, code, requestId });
});

it("a failure without a reason names its code once", () => {
  const error = refusal("unauthorized", "unauthorized");
  expect(errorParts(error)).toEqual({ text: "unauthorized", requestId });
});

it("other texts stay as they are: they may begin with a name or a path", () => {
  const text = "data.csv: no such file";
  expect(errorParts(new ConflictError(text, 409))).toEqual({ text });
  expect(errorParts(new Error(text))).toEqual({ text });
  expect(errorParts("unauthorized: x")).toEqual({ text: "unauthorized: x" });
});
