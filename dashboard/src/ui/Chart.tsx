import { Suspense } from "react";
import { Skeleton } from "./Feedback";
import { lazyPart } from "./lazy";

export interface ChartSeries {
  label: string;
  /** A CSS variable such as `--dot-ok`. */
  colour: string;
  /** Fills the area below the line. */
  fill?: boolean;
  kind?: "line" | "bars";
}

export interface ChartProps {
  /** What the chart shows, for people who do not see it. */
  label: string;
  /** Times in seconds, ascending. */
  times: number[];
  /** One list of values for each series; null is a gap. */
  values: (number | null)[][];
  series: ChartSeries[];
  format?: (value: number) => string;
  /** The values are bytes: lines of the grid are at powers of two. */
  isBytes?: boolean;
  height?: number;
}

const Plot = lazyPart(() => import("./Plot"));

/** A chart over time. The library is loaded when the first one is shown. */
export function Chart(props: ChartProps) {
  const { height = 160, label, times } = props;
  if (times.length === 0) {
    return (
      <div className="flex items-center justify-center text-muted" style={{ height }}>
        No values in this period
      </div>
    );
  }
  return (
    <div role="img" aria-label={label} className="min-w-0" style={{ height }}>
      <Suspense fallback={<Skeleton className="h-full" />}>
        <Plot {...props} height={height} />
      </Suspense>
    </div>
  );
}
