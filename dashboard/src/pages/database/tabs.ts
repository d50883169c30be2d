/** The parts of a database's page. The address names the one that is shown. */

import {
  Activity,
  GitBranch,
  History,
  type LucideIcon,
  ScrollText,
  Settings2,
  SquareTerminal,
} from "lucide-react";

export type DatabaseTab = "overview" | "query" | "branches" | "backups" | "logs" | "settings";

interface DatabaseTabInfo {
  readonly tab: DatabaseTab;
  readonly label: string;
  readonly icon: LucideIcon;
}

export const DATABASE_TABS: readonly DatabaseTabInfo[] = [
  { tab: "overview", label: "Overview", icon: Activity },
  { tab: "query", label: "Query", icon: SquareTerminal },
  { tab: "branches", label: "Branches", icon: GitBranch },
  { tab: "backups", label: "Backups", icon: History },
  { tab: "logs", label: "Logs", icon: ScrollText },
  { tab: "settings", label: "Settings", icon: Settings2 },
];

/** The part that an address names; undefined if there is none of that name. */
export function databaseTabOf(name: string | undefined): DatabaseTab | undefined {
  return DATABASE_TABS.find(({ tab }) => tab === name)?.tab;
}
