import { Card, cx, Note } from "@/ui";
import type { Plan, PlanNode } from "./plan";
import type { Explain } from "./sql";

/** From this part of the whole on, a step is what makes the query slow. */
const HOT = 0.4;
const WARM = 0.15;

/** A plan as a tree: each step with its rows, and a bar for its own part of the time. */
export function PlanPicture({ plan, mode }: { plan: Plan; mode: Explain["mode"] }) {
  return (
    <Card
      title="Plan"
      description={`${plan.summary}. Each bar is the part of the step alone, without those below`}
    >
      {mode === "estimated" && (
        <div className="mb-3">
          <Note>
            The statement may change data, so it was not run. The numbers are estimates of the
            planner.
          </Note>
        </div>
      )}
      <ul aria-label="Steps of the plan">
        <Step node={plan.root} />
      </ul>
    </Card>
  );
}

function Step({ node }: { node: PlanNode }) {
  const share = Math.round(node.share * 100);
  const colour =
    node.share >= HOT ? "bg-dot-danger" : node.share >= WARM ? "bg-dot-warn" : "bg-dot-ok";
  return (
    <li>
      <div className="my-1 rounded-md border border-line bg-sunken px-3 py-2">
        <div className="flex flex-wrap items-baseline gap-x-3">
          <strong className="min-w-0 flex-1 basis-40 font-medium break-words">{node.title}</strong>
          <span className="text-xs whitespace-nowrap tabular-nums">
            {node.own} <span className="text-muted">({share} %)</span>
          </span>
        </div>
        <div
          role="meter"
          aria-label={`Part of ${node.title}`}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={share}
          className="my-1.5 h-1.5 overflow-hidden rounded-full bg-hover"
        >
          <div className={cx("h-full rounded-full", colour)} style={{ width: `${share}%` }} />
        </div>
        <div className="flex flex-wrap gap-x-3 text-xs text-muted">
          <span>{node.rows}</span>
          {node.surprise !== undefined && <span className="text-warn">{node.surprise}</span>}
        </div>
        {node.details.map((line) => (
          <code key={line} className="block font-mono text-2xs break-words text-muted">
            {line}
          </code>
        ))}
      </div>
      {node.children.length > 0 && (
        <ul className="ml-2 border-l border-line-strong/60 pl-2 sm:ml-4 sm:pl-4">
          {node.children.map((child) => (
            <Step key={child.id} node={child} />
          ))}
        </ul>
      )}
    </li>
  );
}
