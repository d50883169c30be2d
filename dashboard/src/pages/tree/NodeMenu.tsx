import * as DropdownMenu from "@radix-ui/react-dropdown-menu";
import {
  Camera,
  Copy,
  ExternalLink,
  GitCompareArrows,
  GitFork,
  Moon,
  Sunrise,
  Trash2,
  Trophy,
} from "lucide-react";
import { applicable } from "@/data/actions";
import { MenuItem, MenuLabel, MenuSeparator } from "@/ui";
import type { FamilyNode } from "./family";

export type NodeAction =
  | "open"
  | "fork"
  | "fork3"
  | "promote"
  | "compare"
  | "snapshot"
  | "hibernate"
  | "wake"
  | "copy"
  | "delete";

/** The actions that make sense for a node. */
export function actionsOf(node: FamilyNode): ReadonlySet<NodeAction> {
  const { info } = node;
  if (info === undefined) return new Set<NodeAction>(["copy"]);
  const isLive = ["running", "paused", "hibernated"].includes(info.status);
  const found = new Set<NodeAction>(["open", "copy", "delete"]);
  if (isLive)
    for (const action of ["fork", "fork3", "compare", "snapshot"] as const) found.add(action);
  if (isLive && node.treeId !== undefined) found.add("promote");
  for (const action of ["hibernate", "wake"] as const) {
    if (applicable(action, [info]).length > 0) found.add(action);
  }
  return found;
}

/** The menu of a node, at a place on the screen. */
export function NodeMenu(props: {
  node: FamilyNode;
  at: { x: number; y: number };
  onAction: (action: NodeAction) => void;
  onClose: () => void;
}) {
  const { node, at, onAction, onClose } = props;
  const can = actionsOf(node);
  const item = (action: NodeAction, label: string, icon: React.ReactNode, shortcut?: string) =>
    can.has(action) ? (
      <MenuItem
        icon={icon}
        danger={action === "delete"}
        {...(shortcut === undefined ? {} : { shortcut })}
        onSelect={() => onAction(action)}
      >
        {label}
      </MenuItem>
    ) : null;
  return (
    // A modal menu would put a style element into the page, which the policy forbids.
    <DropdownMenu.Root open modal={false} onOpenChange={(open) => !open && onClose()}>
      <DropdownMenu.Trigger asChild>
        <span
          aria-hidden="true"
          className="pointer-events-none fixed size-0"
          style={{ left: at.x, top: at.y }}
        />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="start"
          sideOffset={4}
          collisionPadding={8}
          aria-label={`Actions of ${node.name}`}
          // The focus goes back to the node, not to the place of the menu.
          onCloseAutoFocus={(event) => {
            event.preventDefault();
            document
              .querySelector<SVGElement>(`[data-node="${CSS.escape(node.id)}"]`)
              ?.focus({ preventScroll: true });
          }}
          className="z-50 min-w-52 rounded-md border border-line bg-panel p-1 shadow-pop"
        >
          <MenuLabel>{node.name}</MenuLabel>
          {item("open", "Open", <ExternalLink size={14} />, "o")}
          <MenuSeparator />
          {item("fork", "Fork", <GitFork size={14} />, "f")}
          {item("fork3", "Fork three ways", <GitFork size={14} />, "shift+f")}
          {item("promote", "Promote…", <Trophy size={14} />, "p")}
          {item("compare", "Compare with…", <GitCompareArrows size={14} />, "c")}
          <MenuSeparator />
          {item("snapshot", "Save a snapshot", <Camera size={14} />)}
          {item("hibernate", "Put to sleep", <Moon size={14} />)}
          {item("wake", "Wake", <Sunrise size={14} />)}
          {item("copy", "Copy the id", <Copy size={14} />)}
          {item("delete", "Delete…", <Trash2 size={14} />, "Delete")}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
