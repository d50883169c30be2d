import { NotFoundError } from "@pandastack/sdk";
import { QueryClient } from "@tanstack/react-query";
import { beforeEach, expect, it } from "vitest";
import { toast } from "@/ui/toast";
import { dropRows } from "./rows";

const queryKey = ["keys"];
let queries: QueryClient;

function drop(work: () => Promise<unknown>): Promise<boolean> {
  return dropRows<{ id: string }>(queries, { queryKey, isGone: ({ id }) => id === "a", work });
}

function rows(): unknown {
  return queries.getQueryData(queryKey);
}

beforeEach(() => {
  queries = new QueryClient();
  queries.setQueryData(queryKey, [{ id: "a" }, { id: "b" }]);
});

it("a row is gone before the server answers, and stays away", async () => {
  const seen: unknown[] = [];
  expect(await drop(async () => seen.push(rows()))).toBe(true);
  expect(seen).toEqual([[{ id: "b" }]]);
  expect(rows()).toEqual([{ id: "b" }]);
});

it("a row comes back if the server refuses, and the reason is shown", async () => {
  expect(await drop(() => Promise.reject(new Error("it is in use")))).toBe(false);
  expect(rows()).toEqual([{ id: "a" }, { id: "b" }]);
  expect(toast.get().at(-1)).toMatchObject({ tone: "error", title: "it is in use" });
});

it("what somebody else removed is removed", async () => {
  expect(await drop(() => Promise.reject(new NotFoundError("gone", 404)))).toBe(true);
  expect(rows()).toEqual([{ id: "b" }]);
});
