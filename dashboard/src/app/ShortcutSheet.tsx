import { Dialog, Kbd } from "@/ui";
import { PAGES } from "./pages";

const GENERAL: readonly [string, string][] = [
  ["mod+k", "Search pages, sandboxes and actions"],
  ["/", "Go to the filter of the page"],
  ["?", "Show this list"],
  ["[", "Make the navigation small or wide"],
  ["escape", "Close what is open"],
];

const LISTS: readonly [string, string][] = [
  ["j", "Next row, also the arrow down"],
  ["k", "Row before, also the arrow up"],
  ["enter", "Open the row"],
  ["x", "Select the row"],
  ["c", "Create, where a page can"],
];

/** All keyboard shortcuts. */
export function ShortcutSheet({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title="Keyboard shortcuts" size="md">
      <section
        aria-label="All shortcuts"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        className="grid gap-x-8 gap-y-4 sm:grid-cols-2"
      >
        <Keys title="Everywhere" rows={GENERAL} />
        <Keys title="Lists" rows={LISTS} />
        <Keys
          title="Go to"
          rows={PAGES.map((page) => [`g ${page.key}`, page.title] as [string, string])}
        />
      </section>
    </Dialog>
  );
}

function Keys({ title, rows }: { title: string; rows: readonly [string, string][] }) {
  return (
    <section>
      <h3 className="mb-1 text-xs font-medium text-muted">{title}</h3>
      <dl>
        {rows.map(([keys, text]) => (
          <div key={keys} className="flex items-center justify-between gap-4 py-1">
            <dt>{text}</dt>
            <dd>
              <Kbd keys={keys} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
