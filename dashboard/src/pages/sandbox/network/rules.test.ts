import { expect, test } from "vitest";
import { parseRules, ruleFor, ruleProblem } from "./rules";

test("hosts, suffixes and networks are rules", () => {
  for (const rule of ["pypi.org", "*.pythonhosted.org", "10.0.0.0/8", "1.2.3.4", "localhost"]) {
    expect(ruleProblem(rule)).toBeUndefined();
  }
  for (const rule of [
    "https://a.b",
    "a.b/c",
    "a.b:443",
    "10.0.0.0/33",
    "300.1.1.1",
    "a..b",
    "*.*.x",
    "-a",
  ]) {
    expect(ruleProblem(rule)).toBeDefined();
  }
});

test("rules come one per line, once each", () => {
  expect(parseRules("a.b\n c.d, a.b")).toEqual({ rules: ["a.b", "c.d"] });
  expect(parseRules("a.b\nhttp://x").error).toContain("http://x");
});

test("a refused destination becomes a rule", () => {
  expect(ruleFor("example.com:443")).toBe("example.com");
  expect(ruleFor("1.2.3.4:53")).toBe("1.2.3.4");
});
