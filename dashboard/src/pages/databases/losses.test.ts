import { expect, test } from "vitest";
import { deleteLosses } from "./losses";

const ONE = { id: "a", status: "running", template: "postgres-16" };

test("the reader knows what goes and what stays", () => {
  expect(deleteLosses(ONE, [ONE])).toHaveLength(2);
  expect(deleteLosses(ONE, [ONE], 3 * 1024 * 1024)[0]).toContain("3 MiB");
  const branch = { ...ONE, id: "b", branched_from: "a" };
  expect(deleteLosses(ONE, [ONE, branch]).at(-1)).toContain("Not its 1 branch:");
  const clone = { ...ONE, id: "c", cloned_from: "a" };
  expect(deleteLosses(ONE, [ONE, branch, clone]).at(-1)).toContain("Not its 1 clone:");
  expect(deleteLosses(branch, [ONE, branch])).toHaveLength(2);
});
