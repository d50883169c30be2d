import { expect, test } from "vitest";
import { loadHistory, mayKeep, type PastCommand, recall, saveHistory } from "./history";

function storage(): Storage {
  const map = new Map<string, string>();
  return {
    getItem: (key: string) => map.get(key) ?? null,
    setItem: (key: string, value: string) => void map.set(key, value),
  } as Storage;
}

const past = (command: string): PastCommand => ({ command, cwd: "/", at: "2026-11-17T09:00:00Z" });

test("commands that name a secret are not kept", () => {
  for (const command of [
    "export API_KEY=x",
    "curl -H 'Authorization: Bearer x' http://a",
    "git clone https://me:pw@host/x",
    "mysql --password=x",
  ]) {
    expect(mayKeep(command)).toBe(false);
  }
  expect(mayKeep("make test")).toBe(true);
});

test("history survives a reload, by sandbox", () => {
  const store = storage();
  saveHistory(store, "a", [past("ls"), past("TOKEN=1 ./x")]);
  expect(loadHistory(store, "a").map(({ command }) => command)).toEqual(["ls"]);
  expect(loadHistory(store, "b")).toEqual([]);
  store.setItem("pandastack-commands-c", "{broken");
  expect(loadHistory(store, "c")).toEqual([]);
});

test("arrow keys stay within the history", () => {
  const list = [past("b"), past("a")];
  expect(recall(list, -1, 1)).toBe(0);
  expect(recall(list, 1, 1)).toBe(1);
  expect(recall(list, 0, -1)).toBe(-1);
  expect(recall(list, -1, -1)).toBe(-1);
});
