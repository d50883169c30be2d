import { expect, test } from "vitest";
import { isShownAttribute, isShownElement, prepareHtml, STYLE_NAME, withoutColours } from "./html";

test("styles are taken out, and rules that load something are disarmed", () => {
  const { html, css } = prepareHtml(
    '<style scoped>th { color: red; background: url(http://x/y) } @import "z";</style><table style="width:1px"><td>a style=b</td></table>',
  );
  expect(html).toBe(`<table ${STYLE_NAME}="width:1px"><td>a style=b</td></table>`);
  expect(css).toContain("color: red");
  expect(css).not.toMatch(/url|@import/);
});

test("scripts are taken out and reported, also unclosed ones", () => {
  expect(prepareHtml("a<script>alert(1)</script>b")).toEqual({
    html: "ab",
    css: "",
    hadScripts: true,
  });
  expect(prepareHtml("a<SCRIPT src=x>b").html).toBe("a");
  expect(prepareHtml("<b>ok</b>").hadScripts).toBe(false);
});

test("only what shows something stays", () => {
  expect(isShownElement("table")).toBe(true);
  for (const name of ["script", "iframe", "form", "input", "svg", "link", "meta", "base"]) {
    expect(isShownElement(name)).toBe(false);
  }
  expect(isShownAttribute("onclick", "x")).toBe(false);
  expect(isShownAttribute("style", "x")).toBe(false);
  expect(isShownAttribute("href", "javascript:alert(1)")).toBe(false);
  expect(isShownAttribute("href", " https://a")).toBe(true);
  expect(isShownAttribute("src", "http://a/b.png")).toBe(false);
  expect(isShownAttribute("src", "data:image/png;base64,AA")).toBe(true);
});

test("colour codes are removed", () => {
  expect(withoutColours("\x1b[0;31mValueError\x1b[0m: x")).toBe("ValueError: x");
});
