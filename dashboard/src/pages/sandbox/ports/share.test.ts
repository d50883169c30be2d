import { expect, test } from "vitest";
import { linkTo, parsePaths, parsePort } from "./share";

test("paths are prefixes, one per word", () => {
  expect(parsePaths(" /docs\n/api /docs ")).toEqual({ paths: ["/docs", "/api"] });
  expect(parsePaths("docs").error).toMatch(/slash/);
  expect(parsePaths("/a?b").error).toMatch(/query/);
  expect(parsePaths("")).toEqual({ paths: [] });
});

test("a port is a number from 1 to 65535", () => {
  expect(parsePort("3000")).toBe(3000);
  for (const text of ["0", "65536", "1.5", "x", "", "-1"]) expect(parsePort(text)).toBeUndefined();
});

test("a link leads to the first allowed path", () => {
  expect(linkTo("http://a/v1/p/t/", [])).toBe("http://a/v1/p/t/");
  expect(linkTo("http://a/v1/p/t/", ["/docs"])).toBe("http://a/v1/p/t/docs");
});
