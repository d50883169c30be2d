import { describe, expect, it } from "vitest";
import { commandOf, createSnippets, requestOf, shell } from "./snippets";

const WANTED = {
  template: "mini",
  name: "my web",
  persistent: true,
  env: { TEXT: "it's" },
  egressAllowlist: ["*.example.com"],
  volumes: ["data"],
};

describe("createSnippets", () => {
  it("writes a command that a shell reads as it was meant", () => {
    expect(commandOf(WANTED)).toBe(
      "pandastack sandbox create -t mini --name 'my web' --persistent --env 'TEXT=it'\\''s' " +
        "--egress '*.example.com' --volume data",
    );
    expect(commandOf({ template: "mini", egressAllowlist: [] })).toContain("--no-egress");
    expect(commandOf({ fromSnapshot: "s1" })).toBe("pandastack sandbox create --from-snapshot s1");
  });

  it("writes Python and TypeScript in their own spelling", () => {
    const { Python, TypeScript } = createSnippets(WANTED, "http://x");
    expect(Python).toContain('persistent=True, metadata={"name": "my web"}');
    expect(TypeScript).toContain('"egressAllowlist"');
  });

  it("names the address of the server", () => {
    expect(createSnippets(WANTED, "https://pandas.example")["curl"]).toContain(
      "https://pandas.example/v1/sandboxes",
    );
  });
});

it("sends only what was set", () => {
  expect(requestOf({ template: "mini", metadata: {}, env: {}, volumes: [] })).toEqual({
    template: "mini",
  });
});

it("quotes only what needs it", () => {
  expect([shell("a-b_c.d"), shell("a b"), shell("")]).toEqual(["a-b_c.d", "'a b'", "''"]);
});
