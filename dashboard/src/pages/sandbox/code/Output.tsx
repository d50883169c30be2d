import type { Execution, Result } from "@pandastack/sdk";
import { millis } from "@/data/format";
import { Badge, cx, ErrorNote, Note } from "@/ui";
import { CellHtml } from "./Html";
import { withoutColours } from "./html";
import type { Cell } from "./notebook";

/** What a cell printed, returned and raised. */
export function Output({ cell }: { cell: Cell }) {
  const { result, error, state } = cell;
  if (error !== undefined) return <ErrorNote error={error} title="The cell could not run" />;
  if (state === "stopped") return <p className="px-3 py-2 text-xs text-muted">Interrupted</p>;
  if (result === undefined) return null;
  const isEmpty = result.results.length === 0 && !result.stdout && !result.stderr && !result.error;
  return (
    <div data-cell-output className="flex min-w-0 flex-col gap-2 px-3 py-2">
      {result.restarted && (
        <Note tone="warn">The kernel was restarted. Variables of earlier cells are gone.</Note>
      )}
      {result.stdout && <Text text={result.stdout} />}
      {result.stderr && <Text text={result.stderr} className="text-warn" />}
      {result.results.map((one, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the results of a cell never move
        <Rich key={at} result={one} />
      ))}
      {result.error && (
        <Text text={result.error} className="rounded bg-danger-soft p-2 text-danger" role="alert" />
      )}
      <Facts result={result} isEmpty={isEmpty} />
    </div>
  );
}

function Facts({ result, isEmpty }: { result: Execution; isEmpty: boolean }) {
  return (
    <p className="flex flex-wrap items-center gap-2 text-2xs text-faint">
      {isEmpty && <span>No output</span>}
      {result.duration_ms !== undefined && <span>{millis(result.duration_ms)}</span>}
      {result.truncated && <Badge tone="warn">output cut</Badge>}
    </p>
  );
}

function Rich({ result }: { result: Result }) {
  const { png, jpeg, svg, html, markdown, json, text } = result;
  if (png) return <Picture source={`data:image/png;base64,${png.replace(/\s/g, "")}`} alt={text} />;
  if (jpeg)
    return <Picture source={`data:image/jpeg;base64,${jpeg.replace(/\s/g, "")}`} alt={text} />;
  if (svg) return <Picture source={`data:image/svg+xml,${encodeURIComponent(svg)}`} alt={text} />;
  if (html) return <CellHtml html={html} />;
  if (markdown) return <Text text={markdown} />;
  if (json !== undefined) return <Text text={JSON.stringify(json, null, 2)} />;
  return <Text text={text ?? ""} />;
}

/** A picture of a cell. As an image nothing in it can run. */
function Picture({ source, alt }: { source: string; alt: string | undefined }) {
  return (
    <img
      src={source}
      alt={alt?.startsWith("<") === false ? alt : "Picture of the cell"}
      className="max-h-[32rem] max-w-full self-start rounded border border-line bg-white object-contain"
    />
  );
}

function Text({ text, className, role }: { text: string; className?: string; role?: string }) {
  return (
    <pre
      role={role}
      // Long output scrolls, and what scrolls must be reachable by keyboard.
      tabIndex={0}
      className={cx(
        "max-h-[28rem] overflow-auto font-mono text-xs leading-5 break-words whitespace-pre-wrap",
        className,
      )}
    >
      {withoutColours(text)}
    </pre>
  );
}
