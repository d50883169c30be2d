import { useEffect, useRef, useState } from "react";
import { useThemeVersion } from "@/app/theme";
import {
  isDroppedElement,
  isShownAttribute,
  isShownElement,
  prepareHtml,
  STYLE_NAME,
} from "./html";

const HEIGHT_PX_MAX = 480;

const LOOK = `
  html { color-scheme: light dark; }
  body { margin: 0; font: 13px/1.45 system-ui, sans-serif; color: CanvasText; background: transparent; overflow: auto; }
  table { border-collapse: collapse; font-size: 12px; border: 0; }
  th, td { padding: 4px 10px; text-align: right; border: 0; border-bottom: 1px solid color-mix(in srgb, CanvasText 15%, transparent); }
  thead th { border-bottom-width: 2px; }
  tbody tr:hover { background: color-mix(in srgb, CanvasText 6%, transparent); }
  pre, code { font-family: ui-monospace, monospace; }
  img { max-width: 100%; }
`;

/**
 * HTML of a cell, in a frame in which nothing runs. Its elements are checked one by one, and its
 * styles go through the interfaces that the content security policy allows.
 */
export function CellHtml({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const theme = useThemeVersion();
  const [height, setHeight] = useState(40);
  const prepared = useRef(prepareHtml(html));

  useEffect(() => {
    const page = frame.current?.contentDocument;
    const view = frame.current?.contentWindow;
    if (!page || !view) return;
    prepared.current = prepareHtml(html);
    page.body.replaceChildren(cleaned(prepared.current.html, page));
    page.adoptedStyleSheets = [LOOK, prepared.current.css].map((rules) => {
      const sheet = new (
        view as unknown as { CSSStyleSheet: typeof CSSStyleSheet }
      ).CSSStyleSheet();
      sheet.replaceSync(rules);
      return sheet;
    });
    page.documentElement.style.colorScheme = theme;
    setHeight(Math.min(HEIGHT_PX_MAX, page.documentElement.scrollHeight + 2));
  }, [html, theme]);

  return (
    <>
      <iframe
        ref={frame}
        title="Result of the cell"
        // Without `allow-scripts` nothing runs. The same origin lets this page fill the frame.
        sandbox="allow-same-origin allow-popups"
        className="w-full border-0 bg-transparent"
        style={{ height, colorScheme: theme }}
      />
      {prepared.current.hadScripts && (
        <p className="text-xs text-muted">
          Scripts of this result are not run here. Save it as a file to see it whole.
        </p>
      )}
    </>
  );
}

/** The parts of HTML that show something, as nodes of a page. */
function cleaned(html: string, page: Document): DocumentFragment {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const fragment = page.createDocumentFragment();
  for (const node of parsed.body.childNodes) copyInto(fragment, node, page);
  return fragment;
}

function copyInto(parent: Node, node: Node, page: Document): void {
  if (node.nodeType === Node.TEXT_NODE)
    parent.appendChild(page.createTextNode(node.textContent ?? ""));
  if (!(node instanceof Element)) return;
  const name = node.localName;
  if (isDroppedElement(name)) return;
  let into: Node = parent;
  if (isShownElement(name)) {
    const copy = page.createElement(name);
    for (const { name: key, value } of node.attributes) {
      if (!isShownAttribute(key, value)) continue;
      if (key === STYLE_NAME) copy.style.cssText = value.replace(/url\s*\([^)]*\)/gi, "none");
      else copy.setAttribute(key, value);
    }
    if (name === "a") {
      copy.setAttribute("target", "_blank");
      copy.setAttribute("rel", "noopener noreferrer");
    }
    into = parent.appendChild(copy);
  }
  for (const child of node.childNodes) copyInto(into, child, page);
}
