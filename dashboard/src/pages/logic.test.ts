import { describe, expect, it } from "vitest";
import { keySnippets } from "./keys/snippets";
import { secondsOf, seriesOf } from "./performance/series";
import { agentName } from "./settings/agent";
import { passwordProblem } from "./signin/passwords";
import { months, rangeOf } from "./usage/months";

describe("seriesOf", () => {
  const data = {
    from: "",
    to: "",
    step: "1m",
    series: {
      a: [
        ["2026-11-17 09:12:00", 1],
        ["2026-11-17 09:13:00", null],
      ],
      b: [["2026-11-17 09:13:00", 5]],
    },
  };

  it("joins series with gaps", () => {
    const at = Date.UTC(2026, 10, 17, 9, 12) / 1000;
    expect(seriesOf(data, ["a", "b"])).toEqual([
      [at, at + 60],
      [
        [1, null],
        [null, 5],
      ],
    ]);
  });

  it("has no points without data", () => {
    expect(seriesOf(undefined, ["a"])).toEqual([[], [[]]]);
    expect(secondsOf("never")).toBeUndefined();
  });
});

it("lists months over a new year, with their last days", () => {
  expect(months(new Date("2026-01-31T23:00:00Z"))).toEqual(["2026-01", "2025-12", "2025-11"]);
  expect(rangeOf("2026-02")).toEqual({ from: "2026-02-01", to: "2026-02-28" });
  expect(rangeOf("2024-12")).toEqual({ from: "2024-12-01", to: "2024-12-31" });
});

it("fills the key and the address into every snippet", () => {
  const snippets = keySnippets("https://pandas.example", "pds_1");
  expect(Object.keys(snippets)).toEqual(["CLI", "Python", "TypeScript", "curl", "MCP"]);
  for (const text of Object.values(snippets)) {
    expect(text).toContain("https://pandas.example");
    expect(text).toContain("pds_1");
  }
  expect(JSON.parse(snippets["MCP"] ?? "")).toHaveProperty("mcpServers.pandastack.url");
});

it("names browsers and keeps other programs", () => {
  const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
  expect(agentName(firefox)).toBe("Firefox on Linux");
  expect(agentName("pandastack/0.10.0")).toBe("pandastack/0.10.0");
  expect(agentName("")).toBe("unknown program");
});

it("refuses short passwords, and says nothing before the first letter", () => {
  expect(passwordProblem("")).toBeUndefined();
  expect(passwordProblem("123456789")).toContain("10");
  expect(passwordProblem("1234567890")).toBeUndefined();
});
