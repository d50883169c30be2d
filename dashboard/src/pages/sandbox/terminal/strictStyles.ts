/**
 * Lets xterm.js work without inline styles, which the content security policy forbids.
 *
 * It makes `<style>` elements, and sets `style` attributes by name. Both are taken over here: the
 * rules go to constructed style sheets of the document, and the attributes to the style object.
 */

const realCreate = Document.prototype.createElement;

/** Makes an element for xterm.js. */
function createElement(tag: string): HTMLElement {
  if (tag !== "style") return realCreate.call(document, tag);
  return styleSheetElement(realCreate.call(document, "span"));
}

// Cells get their colours by `setAttribute("style", …)`. They are made with the page's own document,
// so the attribute is taken over for all spans. What is shown is the same.
HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

/** An element that looks like `<style>` to its user: its text becomes rules, until it is removed. */
function styleSheetElement(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  element.hidden = true;
  Object.defineProperty(element, "textContent", {
    set: (rules: string) => sheet.replaceSync(rules),
    get: () => "",
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** The document to hand to xterm.js as `documentOverride`. */
export function strictDocument(): Document {
  return new Proxy(document, {
    get(target, name) {
      if (name === "createElement") return createElement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
}

/** Runs `open`, in which xterm.js also uses the real document for a style element. */
export function withStrictDocument(open: () => void): void {
  Object.defineProperty(document, "createElement", { value: createElement, configurable: true });
  try {
    open();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}
