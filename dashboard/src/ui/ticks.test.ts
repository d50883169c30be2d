import { expect, it } from "vitest";
import { timeTicks } from "./ticks";

const AT = new Date(2026, 10, 18, 3, 15, 0).getTime() / 1000;

it.each([
  [30, ["03:15:00", "03:15:30"]],
  [60, ["03:15", "03:16"]],
  [86_400, ["18 Nov", "19 Nov"]],
])("ticks that are %d seconds apart differ", (step, texts) => {
  expect(timeTicks([AT, AT + step])).toEqual(texts);
});
