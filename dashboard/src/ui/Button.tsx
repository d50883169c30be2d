import type { ComponentPropsWithRef, ReactNode } from "react";
import { cx } from "./cx";
import { Spinner } from "./Feedback";
import { Tooltip } from "./Tooltip";

export type ButtonVariant = "primary" | "secondary" | "ghost" | "danger";
export type ButtonSize = "sm" | "md";

const VARIANTS: Record<ButtonVariant, string> = {
  primary: "bg-accent text-accent-ink hover:bg-accent-hover border-transparent",
  secondary: "bg-panel text-ink border-line hover:bg-hover",
  ghost: "bg-transparent text-muted hover:text-ink hover:bg-hover border-transparent",
  danger: "bg-panel text-danger border-line hover:bg-danger-soft hover:border-danger",
};

const SIZES: Record<ButtonSize, string> = {
  sm: "h-7 px-2 text-xs gap-1.5",
  md: "h-8 px-3 text-sm gap-2",
};

/** The classes of a button, for links that look like one. */
export function buttonClass(variant: ButtonVariant = "secondary", size: ButtonSize = "md"): string {
  return cx(
    "inline-flex shrink-0 items-center justify-center whitespace-nowrap rounded-md border",
    "font-medium select-none transition-colors",
    "disabled:opacity-50 disabled:pointer-events-none aria-disabled:opacity-50",
    VARIANTS[variant],
    SIZES[size],
  );
}

export interface ButtonProps extends ComponentPropsWithRef<"button"> {
  variant?: ButtonVariant;
  size?: ButtonSize;
  /** Shows a spinner and takes no clicks. */
  loading?: boolean;
  icon?: ReactNode;
}

export function Button(props: ButtonProps) {
  const { variant, size, loading = false, icon, className, children, disabled, ...rest } = props;
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled === true || loading}
      aria-busy={loading || undefined}
      className={cx(buttonClass(variant, size), className)}
    >
      {loading ? <Spinner size={14} /> : icon}
      {children}
    </button>
  );
}

export interface IconButtonProps extends Omit<ComponentPropsWithRef<"button">, "children"> {
  /** What it does: the accessible name and the tooltip. */
  label: string;
  icon: ReactNode;
  size?: ButtonSize;
  variant?: ButtonVariant;
  /** A shortcut to show in the tooltip. */
  shortcut?: string;
}

export function IconButton(props: IconButtonProps) {
  const { label, icon, size = "md", variant = "ghost", shortcut, className, ...rest } = props;
  return (
    <Tooltip text={label} {...(shortcut === undefined ? {} : { shortcut })}>
      <button
        type="button"
        aria-label={label}
        {...rest}
        className={cx(
          buttonClass(variant, size),
          size === "sm" ? "w-7 px-0!" : "w-8 px-0!",
          className,
        )}
      >
        {icon}
      </button>
    </Tooltip>
  );
}
