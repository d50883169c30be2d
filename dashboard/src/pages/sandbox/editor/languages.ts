/** The languages of the editor, each loaded when a file needs it. */

import type { Extension } from "@codemirror/state";

export type Language =
  | "python"
  | "javascript"
  | "typescript"
  | "json"
  | "html"
  | "css"
  | "markdown"
  | "yaml"
  | "shell"
  | "toml"
  | "dockerfile"
  | "rust"
  | "go"
  | "c"
  | "sql"
  | "properties"
  | "ruby"
  | "r"
  | "xml"
  | "text";

const BY_SUFFIX: Record<string, Language> = {
  py: "python",
  pyi: "python",
  js: "javascript",
  mjs: "javascript",
  cjs: "javascript",
  jsx: "javascript",
  ts: "typescript",
  tsx: "typescript",
  mts: "typescript",
  json: "json",
  ipynb: "json",
  html: "html",
  htm: "html",
  svg: "xml",
  xml: "xml",
  css: "css",
  md: "markdown",
  markdown: "markdown",
  yaml: "yaml",
  yml: "yaml",
  sh: "shell",
  bash: "shell",
  zsh: "shell",
  profile: "shell",
  bashrc: "shell",
  toml: "toml",
  lock: "toml",
  dockerfile: "dockerfile",
  rs: "rust",
  go: "go",
  c: "c",
  h: "c",
  cpp: "c",
  cc: "c",
  hpp: "c",
  java: "c",
  sql: "sql",
  ini: "properties",
  conf: "properties",
  cfg: "properties",
  env: "properties",
  rb: "ruby",
  r: "r",
};

/** The language of a file, by its name. */
export function languageOf(path: string): Language {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  if (name === "makefile") return "shell";
  const suffix = name.slice(name.lastIndexOf(".") + 1);
  return BY_SUFFIX[suffix] ?? "text";
}

/** Loads the highlighting of a language. */
export async function loadLanguage(language: Language): Promise<Extension> {
  switch (language) {
    case "python":
      return (await import("@codemirror/lang-python")).python();
    case "javascript":
      return (await import("@codemirror/lang-javascript")).javascript({ jsx: true });
    case "typescript":
      return (await import("@codemirror/lang-javascript")).javascript({
        jsx: true,
        typescript: true,
      });
    case "json":
      return (await import("@codemirror/lang-json")).json();
    case "html":
      return (await import("@codemirror/lang-html")).html();
    case "css":
      return (await import("@codemirror/lang-css")).css();
    case "markdown":
      return (await import("@codemirror/lang-markdown")).markdown();
    case "yaml":
      return (await import("@codemirror/lang-yaml")).yaml();
    case "text":
      return [];
    default:
      return loadStream(language);
  }
}

async function loadStream(language: Language): Promise<Extension> {
  const { StreamLanguage } = await import("@codemirror/language");
  switch (language) {
    case "shell":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/shell")).shell);
    case "toml":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/toml")).toml);
    case "dockerfile":
      return StreamLanguage.define(
        (await import("@codemirror/legacy-modes/mode/dockerfile")).dockerFile,
      );
    case "rust":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/rust")).rust);
    case "go":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/go")).go);
    case "c":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/clike")).cpp);
    case "sql":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/sql")).pgSQL);
    case "properties":
      return StreamLanguage.define(
        (await import("@codemirror/legacy-modes/mode/properties")).properties,
      );
    case "ruby":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/ruby")).ruby);
    case "r":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/r")).r);
    case "xml":
      return StreamLanguage.define((await import("@codemirror/legacy-modes/mode/xml")).xml);
    default:
      return [];
  }
}
