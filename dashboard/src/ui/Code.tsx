import { Check, Copy } from "lucide-react";
import { useSyncExternalStore } from "react";
import { useCopied } from "./Copy";
import { cx } from "./cx";
import { Tabs } from "./Tabs";

/** Code or a command, with a button that copies it. */
export function CodeBlock(props: {
  code: string;
  /** What is copied, if a secret in the shown code is masked. */
  copyAs?: string;
  className?: string;
}) {
  const { code, copyAs = code, className } = props;
  const [copied, copy] = useCopied();
  return (
    <div className={cx("relative rounded-md border border-line bg-sunken text-left", className)}>
      <pre
        // Long lines scroll, and what scrolls must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above
        tabIndex={0}
        className="overflow-x-auto py-2.5 pr-10 pl-3 font-mono text-xs leading-5 whitespace-pre text-ink"
      >
        {code}
      </pre>
      <button
        type="button"
        aria-label={copied ? "Copied" : "Copy the code"}
        onClick={() => copy(copyAs)}
        className="absolute top-1 right-0 rounded-md bg-sunken p-2 text-muted hover:text-ink"
      >
        {copied ? <Check size={14} className="text-ok" /> : <Copy size={14} />}
      </button>
    </div>
  );
}

export type SnippetLanguage = "CLI" | "Python" | "TypeScript" | "curl" | "MCP";

export type SnippetSet = Partial<Record<SnippetLanguage, string>>;

// The language that the reader chose last. It is no secret, and only lives with the page.
let chosen: SnippetLanguage = "CLI";
const listeners = new Set<() => void>();

function choose(language: SnippetLanguage): void {
  chosen = language;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The same thing in several languages. The choice is shared by all snippets of the page. */
export function Snippets({ snippets, label }: { snippets: SnippetSet; label: string }) {
  const language = useSyncExternalStore(subscribe, () => chosen);
  const names = Object.keys(snippets) as SnippetLanguage[];
  const value = names.includes(language) ? language : names[0];
  if (value === undefined) return null;
  return (
    <Tabs
      label={label}
      value={value}
      onChange={choose}
      className="w-full text-left"
      contentClassName="pt-2"
      items={names.map((name) => ({
        value: name,
        label: name,
        content: <CodeBlock code={snippets[name] ?? ""} />,
      }))}
    />
  );
}
