import { expect, it } from "vitest";
import { score, search } from "./search";

const ENTRIES = [
  { title: "Sandboxes", words: "machines" },
  { title: "Create a sandbox", words: "new" },
  { title: "Usage", words: "billing cost" },
  { title: "web · mini", words: "5c0f1a2b task t-1" },
];

function titles(query: string): string[] {
  return search(ENTRIES, query, 10).map(({ title }) => title);
}

it("puts the title that begins with the word first", () => {
  expect(titles("sand")).toEqual(["Sandboxes", "Create a sandbox"]);
});

it("finds by further words and ids", () => {
  expect(titles("billing")).toEqual(["Usage"]);
  expect(titles("5c0f")).toEqual(["web · mini"]);
});

it("needs every word, and forgives gaps", () => {
  expect(titles("create sandbox")).toEqual(["Create a sandbox"]);
  expect(titles("sndbx")).toContain("Sandboxes");
  expect(titles("create usage")).toEqual([]);
});

it("shows all without a query, in their order, up to the limit", () => {
  expect(search(ENTRIES, " ", 2).map(({ title }) => title)).toEqual([
    "Sandboxes",
    "Create a sandbox",
  ]);
  expect(score({ title: "x" }, "")).toBeGreaterThan(0);
});
