/** Makes HTML of a cell ready to be shown. Pure. */

export interface PreparedHtml {
  /** Without style elements, and with style attributes under another name. */
  readonly html: string;
  /** The rules of the style elements, without any that load something. */
  readonly css: string;
  /** Whether something was left out that would have run. */
  readonly hadScripts: boolean;
}

/** The name under which style attributes pass the parser. The policy forbids the real one. */
export const STYLE_NAME = "data-cell-style";

export const HTML_CHARS_MAX = 2_000_000;

/** Takes styles and scripts out of HTML. What is left is parsed and cleaned by `cleanTree`. */
export function prepareHtml(source: string): PreparedHtml {
  const rules: string[] = [];
  let hadScripts = false;
  const html = source
    .slice(0, HTML_CHARS_MAX)
    .replace(/<style\b[^>]*>([\s\S]*?)(<\/style\s*>|$)/gi, (_, css: string) => {
      rules.push(css);
      return "";
    })
    .replace(/<script\b[\s\S]*?(<\/script\s*>|$)/gi, () => {
      hadScripts = true;
      return "";
    })
    .replace(/<[a-z][^>]*>/gi, (tag) => tag.replace(/\sstyle\s*=/gi, ` ${STYLE_NAME}=`));
  return { html, css: rules.map(harmless).join("\n"), hadScripts };
}

/** Rules without those that load something from elsewhere. */
function harmless(css: string): string {
  return css.replace(/@import[^;]*;?/gi, "").replace(/url\s*\([^)]*\)/gi, "none");
}

/** Elements that show something and do nothing. All others are left out, but not their text. */
const ELEMENTS = new Set(
  (
    "a abbr b blockquote br caption center code col colgroup dd del details div dl dt em figcaption figure " +
    "h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span strong sub summary sup " +
    "table tbody td tfoot th thead tr tt u ul var"
  ).split(" "),
);

const ATTRIBUTES = new Set(
  "align alt border cellpadding cellspacing class colspan headers height href id open rowspan scope src start title valign width".split(
    " ",
  ),
);

/** Elements whose content is no text for readers. */
const DROPPED = new Set([
  "script",
  "style",
  "template",
  "noscript",
  "iframe",
  "object",
  "head",
  "title",
]);

export function isShownElement(name: string): boolean {
  return ELEMENTS.has(name);
}

export function isDroppedElement(name: string): boolean {
  return DROPPED.has(name);
}

/** Whether an attribute may stay. Links go to web pages only, images bring their data along. */
export function isShownAttribute(name: string, value: string): boolean {
  if (name === STYLE_NAME) return true;
  if (!ATTRIBUTES.has(name)) return false;
  if (name === "href") return /^(https?:|#)/i.test(value.trim());
  if (name === "src") return /^data:image\//i.test(value.trim());
  return true;
}

/** A text without the colour codes of terminals. */
export function withoutColours(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these codes start with one
  return text.replace(/\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*(\x07|\x1b\\)/g, "");
}
