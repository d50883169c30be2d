import * as Radix from "@radix-ui/react-dropdown-menu";
import { Check } from "lucide-react";
import { type ReactElement, type ReactNode, useContext } from "react";
import { cx } from "./cx";
import { Kbd } from "./Kbd";
import { PortalRoot } from "./portal";

const ITEM =
  "flex cursor-default items-center gap-2 rounded px-2 py-1.5 text-sm outline-none select-none " +
  "data-[highlighted]:bg-hover data-[disabled]:opacity-50";

/** A menu. `trigger` is a button that takes a ref. */
export function Menu(props: {
  trigger: ReactElement;
  children: ReactNode;
  align?: "start" | "end";
  label?: string;
  className?: string;
  defaultOpen?: boolean;
}) {
  const { trigger, children, align = "end", label, className, defaultOpen = false } = props;
  const container = useContext(PortalRoot);
  return (
    // A modal menu would put a style element into the page, which the policy forbids.
    <Radix.Root modal={false} defaultOpen={defaultOpen}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal container={container}>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          aria-label={label}
          className={cx(
            "z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-44 overflow-y-auto",
            "rounded-md border border-line bg-panel p-1 shadow-pop",
            className,
          )}
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

export function MenuItem(props: {
  children: ReactNode;
  onSelect: () => void;
  icon?: ReactNode;
  shortcut?: string;
  danger?: boolean;
  disabled?: boolean;
}) {
  const { children, onSelect, icon, shortcut, danger = false, disabled = false } = props;
  return (
    <Radix.Item
      disabled={disabled}
      onSelect={onSelect}
      className={cx(ITEM, danger && "text-danger data-[highlighted]:bg-danger-soft")}
    >
      {icon}
      <span className="min-w-0 flex-1 truncate">{children}</span>
      {shortcut !== undefined && <Kbd keys={shortcut} />}
    </Radix.Item>
  );
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="px-2 py-1 text-2xs text-muted">{children}</Radix.Label>;
}

export function MenuSeparator() {
  return <Radix.Separator className="my-1 h-px bg-line" />;
}

/** One of several, with a mark at the chosen one. */
export function MenuChoice<T extends string>(props: {
  value: T;
  onChange: (value: T) => void;
  choices: readonly { value: T; label: ReactNode; hint?: ReactNode }[];
}) {
  const { value, onChange, choices } = props;
  return (
    <Radix.RadioGroup value={value} onValueChange={(next) => onChange(next as T)}>
      {choices.map((choice) => (
        <Radix.RadioItem key={choice.value} value={choice.value} className={ITEM}>
          <span className="w-4 shrink-0">
            <Radix.ItemIndicator>
              <Check size={14} aria-hidden="true" />
            </Radix.ItemIndicator>
          </span>
          <span className="min-w-0 flex-1 truncate">{choice.label}</span>
          {choice.hint !== undefined && <span className="text-xs text-muted">{choice.hint}</span>}
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  );
}
