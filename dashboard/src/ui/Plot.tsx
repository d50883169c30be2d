import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./plot.css";
import { useThemeVersion } from "@/app/theme";
import type { ChartProps } from "./Chart";
import { areDays, DAY_STEPS, daySplits, timeSteps, timeText, timeTicks } from "./ticks";

const LEGEND_PX = 22;
const DAY = 86_400;
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Draws a chart with uPlot. */
export default function Plot(props: ChartProps) {
  const { times, values, series, format, height = 160 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const theme = useThemeVersion();
  const shape = JSON.stringify([series, height, theme, areDays(times)]);
  const latest = useRef<uPlot.AlignedData>([times, ...values]);
  latest.current = [times, ...values];

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` names what is drawn
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const made = new uPlot(
      optionsOf(props, element.clientWidth, height - LEGEND_PX, format ?? String),
      latest.current,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height: height - LEGEND_PX });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData([times, ...values]);
  }, [times, values]);

  return <div ref={box} className="chart h-full w-full overflow-hidden" />;
}

/** Options of uPlot in the colours of the theme. */
function optionsOf(
  { times, series, isBytes = false }: ChartProps,
  width: number,
  height: number,
  format: (value: number) => string,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--faint"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const isDaily = areDays(times);
  const hasBars = series.some(({ kind }) => kind === "bars");
  return {
    width,
    height,
    padding: [8, 28, 0, 0],
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    scales: {
      x: { range: (plot, min, max) => xRange(plot.data[0], min, max, hasBars) },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, ...timeAxis(isDaily), space: 64, size: 26 },
      {
        ...axis,
        ...(isBytes ? { incrs: POWERS_OF_TWO } : {}),
        size: 62,
        space: 28,
        values: (_plot, ticks) => ticks.map((tick) => format(tick)),
      },
    ],
    series: [
      { label: "", value: (_plot, at) => (at === null ? "" : timeText(at, isDaily)) },
      ...series.map((one) => seriesOptions(one, colour(one.colour), format)),
    ],
  };
}

/** Where the times are, and what they say. */
function timeAxis(isDaily: boolean): uPlot.Axis {
  if (!isDaily) {
    return {
      incrs: (plot, _axis, min, max) => timeSteps(max - min, plot.data[0].length),
      values: (_plot, ticks, _axis, _space, step) => timeTicks(ticks, step),
    };
  }
  return {
    incrs: DAY_STEPS,
    // The library's own are at midnight of the reader, between two days of the server.
    splits: (plot, _axis, min, max, step) => daySplits(plot.data[0][0] ?? min, [min, max], step),
    values: (_plot, ticks, _axis, _space, step) => timeTicks(ticks, step, true),
  };
}

function seriesOptions(
  one: ChartProps["series"][number],
  stroke: string,
  format: (value: number) => string,
): uPlot.Series {
  const isBars = one.kind === "bars";
  const share = isBars ? 55 : 16;
  return {
    label: one.label,
    stroke,
    width: isBars ? 0 : 1.5,
    ...(one.fill || isBars
      ? { fill: `color-mix(in oklch, ${stroke} ${share}%, transparent)` }
      : {}),
    ...(isBars && uPlot.paths.bars
      ? { paths: uPlot.paths.bars({ size: [0.7, 40], radius: 0.15 }) }
      : {}),
    points: { show: false },
    spanGaps: false,
    value: (_plot, value) => (value === null || value === undefined ? "" : format(value)),
  };
}

/** Bars need half a step more on both sides. */
function xRange(
  times: ArrayLike<number> | undefined,
  min: number,
  max: number,
  hasBars: boolean,
): [number, number] {
  const first = times?.[0] ?? min;
  // For one point the library takes years.
  if (times?.length === 1) return [first - DAY / 2, first + DAY / 2];
  const second = times?.[1] ?? first + DAY;
  const pad = hasBars ? (second - first) / 2 : 0;
  return [min - pad, max + pad];
}
