import { type ReactNode, useId } from "react";
import { cx } from "./cx";

export interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
  optional?: boolean;
  className?: string;
  /** Renders the control with the id and the descriptions that belong to it. */
  children: (control: {
    id: string;
    "aria-describedby"?: string;
    "aria-invalid"?: true;
  }) => ReactNode;
}

/** A row of a form: label, control, hint and error. */
export function Field({ label, hint, error, optional = false, className, children }: FieldProps) {
  const id = useId();
  const note = error ?? hint;
  return (
    <div className={cx("flex flex-col gap-1", className)}>
      <label htmlFor={id} className="text-xs font-medium text-ink">
        {label}
        {optional && <span className="font-normal text-faint"> (optional)</span>}
      </label>
      {children({
        id,
        ...(note ? { "aria-describedby": `${id}-note` } : {}),
        ...(error === undefined ? {} : { "aria-invalid": true as const }),
      })}
      {note && (
        <p
          id={`${id}-note`}
          className={cx("text-xs", error === undefined ? "text-muted" : "text-danger")}
        >
          {note}
        </p>
      )}
    </div>
  );
}
