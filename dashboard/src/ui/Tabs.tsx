import * as Radix from "@radix-ui/react-tabs";
import { type ReactNode, useId } from "react";
import { cx } from "./cx";

export interface TabItem<T extends string> {
  value: T;
  label: ReactNode;
  content: ReactNode;
}

/** Tabs with their content. Only the chosen one is in the page. */
export function Tabs<T extends string>(props: {
  label: string;
  value: T;
  onChange: (value: T) => void;
  items: readonly TabItem<T>[];
  className?: string;
  contentClassName?: string;
}) {
  const { label, value, onChange, items, className, contentClassName } = props;
  return (
    <Radix.Root value={value} onValueChange={(next) => onChange(next as T)} className={className}>
      <Radix.List aria-label={label} className="flex gap-1 overflow-x-auto border-b border-line">
        {items.map((item) => (
          <Radix.Trigger
            key={item.value}
            value={item.value}
            className={cx(
              "-mb-px flex shrink-0 items-center gap-1.5 border-b-2 border-transparent px-2.5 py-2 text-sm",
              "text-muted hover:text-ink focus-visible:outline-offset-[-2px]",
              "data-[state=active]:border-accent data-[state=active]:text-ink",
            )}
          >
            {item.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {items.map((item) => (
        <Radix.Content key={item.value} value={item.value} className={contentClassName}>
          {item.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}

/** A choice of few, all visible. */
export function Segmented<T extends string>(props: {
  label: string;
  value: T;
  onChange: (value: T) => void;
  choices: readonly { value: T; label: ReactNode }[];
}) {
  const { label, value, onChange, choices } = props;
  const name = useId();
  return (
    <div
      role="radiogroup"
      aria-label={label}
      className="inline-flex shrink-0 rounded-md border border-line bg-sunken p-0.5"
    >
      {choices.map((choice) => (
        <label
          key={choice.value}
          className={cx(
            "cursor-pointer rounded px-2 py-0.5 text-xs select-none has-focus-visible:outline-2",
            "has-focus-visible:outline-accent",
            choice.value === value ? "bg-panel text-ink shadow-sm" : "text-muted hover:text-ink",
          )}
        >
          <input
            type="radio"
            name={name}
            className="sr-only"
            checked={choice.value === value}
            onChange={() => onChange(choice.value)}
          />
          {choice.label}
        </label>
      ))}
    </div>
  );
}
