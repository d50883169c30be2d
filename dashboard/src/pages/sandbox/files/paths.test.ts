import type { FileInfo } from "@pandastack/sdk";
import { expect, test } from "vitest";
import {
  changedFolders,
  cleanPath,
  imageType,
  joinPath,
  nameOf,
  nameProblem,
  parentOf,
  textOf,
  treeRows,
  viewOf,
} from "./paths";

function entry(path: string, is_dir = false): FileInfo {
  return { path, name: nameOf(path), is_dir, size: 1, mode: is_dir ? "d" : "f", mtime: 0 };
}

test("paths are joined and taken apart", () => {
  expect(joinPath("/", "a")).toBe("/a");
  expect(joinPath("/a/", "b")).toBe("/a/b");
  expect(parentOf("/a/b")).toBe("/a");
  expect(parentOf("/a")).toBe("/");
  expect(nameOf("/a/b c")).toBe("b c");
  expect(cleanPath("root//x/../y/.")).toBe("/root/y");
  expect(cleanPath("/../..")).toBe("/");
});

test("names that are no names are refused", () => {
  expect(nameProblem("a b.txt")).toBeUndefined();
  for (const name of ["", ".", "..", "a/b", "a\0b"]) expect(nameProblem(name)).toBeDefined();
});

test("a change makes the listing of its folder stale, an overflow all", () => {
  const change = (type: string, path: string) => ({ type, path, isDir: false });
  const folders = changedFolders([change("created", "/a/x"), change("deleted", "/a/b/y")]);
  expect([...(folders ?? [])]).toEqual(["/a", "/a/b"]);
  expect(changedFolders([change("overflow", "")])).toBeUndefined();
});

test("rows show open folders with their entries", () => {
  const known: Record<string, FileInfo[]> = {
    "/": [entry("/a", true), entry("/b", true), entry("/c")],
    "/a": [entry("/a/x")],
    "/b": [entry("/b/y")],
  };
  const rows = treeRows("/", new Set(["/a", "/missing"]), (folder) => known[folder]);
  expect(rows.map((row) => `${row.level} ${row.entry.path}`)).toEqual([
    "1 /a",
    "2 /a/x",
    "1 /b",
    "1 /c",
  ]);
  expect(rows[0]?.isOpen).toBe(true);
});

test("the view depends on the kind and the size", () => {
  expect(imageType("/x/A.PNG")).toBe("image/png");
  expect(imageType("/x/png")).toBeUndefined();
  expect(viewOf("/a.png", 1000)).toBe("image");
  expect(viewOf("/a.txt", 1000)).toBe("text");
  expect(viewOf("/a.bin", 1e9)).toBe("large");
  expect(textOf(new Uint8Array([104, 105]))).toBe("hi");
  expect(textOf(new Uint8Array([0, 1]))).toBeUndefined();
  expect(textOf(new Uint8Array([0xff, 0xfe, 65]))).toBeUndefined();
});
