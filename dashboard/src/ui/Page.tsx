import type { ReactNode } from "react";
import { useEffect } from "react";
import { cx } from "./cx";

export interface PageHeaderProps {
  title: string;
  /** The name in the window's title, if it differs. */
  documentTitle?: string;
  description?: ReactNode;
  /** Beside the title: a badge or a count. */
  aside?: ReactNode;
  /** Buttons at the right. */
  actions?: ReactNode;
}

/** The head of a page. It also sets the title of the window. */
export function PageHeader(props: PageHeaderProps) {
  const { title, documentTitle = title, description, aside, actions } = props;
  useEffect(() => {
    document.title = `${documentTitle} · PandaStack`;
  }, [documentTitle]);
  return (
    <header className="flex flex-wrap items-start gap-x-4 gap-y-2 px-4 pt-4 pb-3 md:px-6">
      <div className="min-w-0 flex-1 basis-44">
        <div className="flex min-h-8 flex-wrap items-center gap-2">
          <h1 className="text-xl font-semibold wrap-anywhere">{title}</h1>
          {aside}
        </div>
        {description && <p className="max-w-3xl text-muted">{description}</p>}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  );
}

/** The body of a page that scrolls as a whole. */
export function PageBody({ children, className }: { children: ReactNode; className?: string }) {
  return <div className={cx("flex flex-col gap-4 px-4 pb-8 md:px-6", className)}>{children}</div>;
}

/** A framed part of a page. */
export function Card(props: {
  title?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
  className?: string;
  /** Without padding, for tables and charts. */
  flush?: boolean;
}) {
  const { title, description, actions, children, className, flush = false } = props;
  return (
    <section
      className={cx(
        "min-w-0 rounded-lg border border-line bg-panel",
        !title && !actions && "[&_[data-table]]:rounded-t-lg [&_[data-table]]:border-t-0",
        className,
      )}
    >
      {(title || actions) && (
        <header className="flex flex-wrap items-center gap-2 px-4 pt-3 pb-2">
          <div className="min-w-0 flex-1">
            {title && <h2 className="text-sm font-semibold">{title}</h2>}
            {description && <p className="text-xs text-muted">{description}</p>}
          </div>
          {actions}
        </header>
      )}
      <div className={cx(!flush && "px-4 pb-4", !flush && !title && !actions && "pt-4")}>
        {children}
      </div>
    </section>
  );
}

/** One number with its name. */
export function Stat(props: {
  label: string;
  value: ReactNode;
  hint?: ReactNode;
  className?: string;
}) {
  const { label, value, hint, className } = props;
  return (
    <div className={cx("min-w-0 rounded-lg border border-line bg-panel px-4 py-3", className)}>
      <div className="text-xs text-muted">{label}</div>
      <div className="mt-0.5 text-xl font-semibold tabular-nums">{value}</div>
      {hint && <div className="mt-0.5 truncate text-xs text-muted">{hint}</div>}
    </div>
  );
}

/** A page or list without content. It teaches what to do. */
export function EmptyState(props: {
  icon?: ReactNode;
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
}) {
  const { icon, title, children, actions } = props;
  return (
    <div className="mx-auto flex w-full max-w-2xl flex-col items-center gap-3 px-4 py-10 text-center">
      {icon && <div className="text-faint">{icon}</div>}
      <h2 className="text-base font-semibold">{title}</h2>
      {children && <div className="flex w-full flex-col gap-3 text-muted">{children}</div>}
      {actions && <div className="flex flex-wrap justify-center gap-2">{actions}</div>}
    </div>
  );
}

/** How much of a limit is used. Without a limit only the number is shown. */
export function Meter(props: { label: string; used: number; limit: number | null; text: string }) {
  const { label, used, limit, text } = props;
  const share = limit ? Math.min(1, used / limit) : 0;
  const colour = share >= 0.9 ? "bg-dot-danger" : share >= 0.7 ? "bg-dot-warn" : "bg-dot-ok";
  return (
    <div className="flex flex-col gap-1">
      <div className="flex justify-between gap-2 text-xs">
        <span className="text-muted">{label}</span>
        <span className="tabular-nums">{text}</span>
      </div>
      {limit !== null && limit > 0 && (
        <div
          role="meter"
          aria-label={label}
          aria-valuenow={used}
          aria-valuemin={0}
          aria-valuemax={limit}
          aria-valuetext={text}
          className="h-1.5 overflow-hidden rounded-full bg-hover"
        >
          <div className={cx("h-full rounded-full", colour)} style={{ width: `${share * 100}%` }} />
        </div>
      )}
    </div>
  );
}
