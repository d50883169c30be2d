/** The parts of a sandbox's page. The address names the one that is shown. */

import {
  Activity,
  Code,
  Folder,
  Globe,
  ListChecks,
  type LucideIcon,
  Network,
  ScrollText,
  Settings2,
  ShieldCheck,
  SquareTerminal,
  Terminal,
  Zap,
} from "lucide-react";

export type SandboxTab =
  | "terminal"
  | "files"
  | "code"
  | "commands"
  | "processes"
  | "ports"
  | "logs"
  | "metrics"
  | "events"
  | "network"
  | "settings";

export interface TabInfo {
  readonly tab: SandboxTab;
  readonly label: string;
  readonly icon: LucideIcon;
}

export const SANDBOX_TABS: readonly TabInfo[] = [
  { tab: "terminal", label: "Terminal", icon: SquareTerminal },
  { tab: "files", label: "Files", icon: Folder },
  { tab: "code", label: "Code", icon: Code },
  { tab: "commands", label: "Commands", icon: Terminal },
  { tab: "processes", label: "Processes", icon: ListChecks },
  { tab: "ports", label: "Ports", icon: Globe },
  { tab: "logs", label: "Logs", icon: ScrollText },
  { tab: "metrics", label: "Metrics", icon: Activity },
  { tab: "events", label: "Events", icon: Zap },
  { tab: "network", label: "Network", icon: ShieldCheck },
  { tab: "settings", label: "Settings", icon: Settings2 },
];

export const TREE_ICON = Network;

/** The part that an address names; undefined if there is none of that name. */
export function tabOf(name: string | undefined): SandboxTab | undefined {
  return SANDBOX_TABS.find(({ tab }) => tab === name)?.tab;
}
