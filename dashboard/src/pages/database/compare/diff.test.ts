import { expect, test } from "vitest";
import { changesOf } from "./diff";

const DIFF = `--- orders
+++ try
@@ -1,4 +1,4 @@
 CREATE TABLE public.item (
-    price integer
+    price numeric,
+    note text
 );
--- an old comment
`;

test("lines are counted by what they mean", () => {
  const { lines, added, removed } = changesOf(DIFF);
  expect([added, removed]).toEqual([2, 2]);
  expect(lines.map(({ kind }) => kind)).toEqual([
    "place",
    "same",
    "removed",
    "added",
    "added",
    "same",
    "removed",
  ]);
  expect(lines.at(-1)?.text).toBe("--- an old comment");
});

test("no difference has no lines", () => {
  expect(changesOf("")).toEqual({ lines: [], added: 0, removed: 0 });
});
