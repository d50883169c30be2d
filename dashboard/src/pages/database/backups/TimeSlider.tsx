import { type KeyboardEvent, useId } from "react";
import { exactTime } from "@/data/format";
import { cx } from "@/ui";
import { agoText, clampTo, keyStep, rfc3339, type Span, shareOf } from "./times";

/** Half of the thumb: its middle never reaches the edges of the track. */
const EDGE_PX = 8;

const THUMB =
  "[&::-webkit-slider-thumb]:size-4 [&::-webkit-slider-thumb]:appearance-none " +
  "[&::-webkit-slider-thumb]:rounded-full [&::-webkit-slider-thumb]:border-2 " +
  "[&::-webkit-slider-thumb]:border-accent [&::-webkit-slider-thumb]:bg-panel " +
  "[&::-moz-range-thumb]:size-3 [&::-moz-range-thumb]:rounded-full " +
  "[&::-moz-range-thumb]:border-2 [&::-moz-range-thumb]:border-accent " +
  "[&::-moz-range-thumb]:bg-panel";

/** A time on the track of a restore window. Base backups are marks on it. */
export function TimeSlider(props: {
  span: Span;
  at: number;
  marks: readonly number[];
  onChange: (at: number) => void;
}) {
  const { span, at, marks, onChange } = props;
  const id = useId();
  const shown = clampTo(at, span);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = keyStep(event.key, event.shiftKey ? "shift" : "none");
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    onChange(clampTo(shown + step, span));
  };
  return (
    <div className="flex flex-col gap-1">
      <div className="relative h-6">
        <span className="absolute inset-x-0 top-2.5 h-1 rounded-full bg-line" />
        <span
          className="absolute top-2.5 left-0 h-1 rounded-full bg-accent"
          style={{ width: placeOf(shareOf(shown, span)) }}
        />
        {marks.map((mark) => (
          <span
            key={mark}
            data-mark={rfc3339(mark)}
            className={cx(
              "absolute top-1 h-4 w-0.5 -translate-x-1/2 rounded-full",
              mark <= shown ? "bg-accent" : "bg-line-strong",
            )}
            style={{ left: placeOf(shareOf(mark, span)) }}
          />
        ))}
        <input
          type="range"
          aria-label="Time to restore"
          aria-valuetext={`${exactTime(rfc3339(shown))}, ${agoText(shown, Date.now())}`}
          aria-describedby={id}
          min={span.earliest}
          max={span.latest}
          step={1}
          value={shown}
          onChange={(event) => onChange(Number(event.target.value))}
          onKeyDown={onKeyDown}
          className={cx(
            "absolute inset-0 m-0 w-full cursor-pointer appearance-none rounded bg-transparent",
            THUMB,
          )}
        />
      </div>
      <div className="flex justify-between gap-3 text-xs text-muted">
        <span>{exactTime(rfc3339(span.earliest))}</span>
        <span className="text-right">{exactTime(rfc3339(span.latest))}</span>
      </div>
      <p id={id} className="text-xs text-muted">
        Marks are base backups. Arrow keys move by a minute, with Shift by a second, Page Up and
        Page Down by an hour.
      </p>
    </div>
  );
}

function placeOf(share: number): string {
  return `calc(${EDGE_PX}px + (100% - ${2 * EDGE_PX}px) * ${share})`;
}
