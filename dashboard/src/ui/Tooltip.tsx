import * as Radix from "@radix-ui/react-tooltip";
import { type ReactElement, type ReactNode, useContext } from "react";
import { Kbd } from "./Kbd";
import { PortalRoot } from "./portal";

export function TooltipProvider({ children }: { children: ReactNode }) {
  return (
    <Radix.Provider delayDuration={400} skipDelayDuration={200}>
      {children}
    </Radix.Provider>
  );
}

/** A short text about an element, on hover and on focus. The element must take a ref. */
export function Tooltip(props: { text: ReactNode; shortcut?: string; children: ReactElement }) {
  const { text, shortcut, children } = props;
  const container = useContext(PortalRoot);
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal container={container}>
        <Radix.Content
          sideOffset={6}
          collisionPadding={8}
          className="z-50 flex max-w-72 items-center gap-2 rounded bg-ink px-2 py-1 text-xs text-bg shadow-pop"
        >
          {text}
          {shortcut !== undefined && <Kbd keys={shortcut} inverse />}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
