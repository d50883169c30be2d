import { Search, X } from "lucide-react";
import type { ComponentPropsWithRef } from "react";
import { cx } from "./cx";

const BOX =
  "w-full rounded-md border border-line-strong/60 bg-panel text-sm text-ink placeholder:text-faint " +
  "focus-visible:outline-2 focus-visible:outline-offset-0 focus-visible:outline-accent " +
  "disabled:opacity-60 aria-invalid:border-danger";

export function Input({ className, ...rest }: ComponentPropsWithRef<"input">) {
  return <input {...rest} className={cx(BOX, "h-8 px-2.5", className)} />;
}

export function TextArea({ className, ...rest }: ComponentPropsWithRef<"textarea">) {
  return <textarea {...rest} className={cx(BOX, "px-2.5 py-1.5", className)} />;
}

/** The browser's own list: works with every keyboard, screen reader and phone. */
export function Select({ className, children, ...rest }: ComponentPropsWithRef<"select">) {
  return (
    <select {...rest} className={cx(BOX, "h-8 pr-7 pl-2", className)}>
      {children}
    </select>
  );
}

export function Checkbox({ className, ...rest }: Omit<ComponentPropsWithRef<"input">, "type">) {
  return (
    <input
      {...rest}
      type="checkbox"
      className={cx("block size-4 shrink-0 accent-accent", className)}
    />
  );
}

/** Something that is on or off at once. */
export function Switch(props: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  label: string;
  disabled?: boolean;
}) {
  const { checked, onChange, label, disabled } = props;
  return (
    <button
      type="button"
      role="switch"
      aria-checked={checked}
      aria-label={label}
      disabled={disabled}
      onClick={() => onChange(!checked)}
      className={cx(
        "relative h-5 w-9 shrink-0 rounded-full border transition-colors disabled:opacity-50",
        checked ? "border-accent bg-accent" : "border-line-strong bg-sunken",
      )}
    >
      <span
        className={cx(
          "absolute top-0.5 left-0.5 size-3.5 rounded-full transition-transform",
          checked ? "translate-x-4 bg-accent-ink" : "bg-line-strong",
        )}
      />
    </button>
  );
}

/** A search field with its own clear button. */
export function SearchInput(props: {
  value: string;
  onChange: (value: string) => void;
  label: string;
  placeholder?: string;
  className?: string;
  inputRef?: React.Ref<HTMLInputElement>;
}) {
  const { value, onChange, label, placeholder = label, className, inputRef } = props;
  return (
    <div className={cx("relative", className)}>
      <Search
        size={14}
        aria-hidden="true"
        className="pointer-events-none absolute top-1/2 left-2.5 -translate-y-1/2 text-faint"
      />
      <Input
        ref={inputRef}
        type="text"
        role="searchbox"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          if (value === "") event.currentTarget.blur();
          else onChange("");
        }}
        className="px-8"
      />
      {value !== "" && (
        <button
          type="button"
          aria-label="Clear the search"
          onClick={() => onChange("")}
          className="absolute top-1/2 right-1.5 -translate-y-1/2 rounded p-1 text-faint hover:text-ink"
        >
          <X size={14} />
        </button>
      )}
    </div>
  );
}
