/** Every page of the dashboard: for the navigation, the palette and the shortcuts. */

import {
  Activity,
  Box,
  Boxes,
  Camera,
  CreditCard,
  Database,
  Gauge,
  HardDrive,
  KeyRound,
  type LucideIcon,
  Network,
  ScrollText,
  Settings,
  Users,
  Webhook,
} from "lucide-react";

export interface PageInfo {
  readonly path:
    | "/"
    | "/sandboxes"
    | "/tree"
    | "/snapshots"
    | "/templates"
    | "/volumes"
    | "/databases"
    | "/webhooks"
    | "/audit"
    | "/performance"
    | "/keys"
    | "/team"
    | "/usage"
    | "/settings";
  readonly title: string;
  readonly icon: LucideIcon;
  /** The second key after `g`. */
  readonly key: string;
  /** Further words to find it by. */
  readonly words: string;
}

export interface PageGroup {
  readonly title: string;
  readonly pages: readonly PageInfo[];
}

export const PAGE_GROUPS: readonly PageGroup[] = [
  {
    title: "",
    pages: [{ path: "/", title: "Overview", icon: Activity, key: "o", words: "home start" }],
  },
  {
    title: "Machines",
    pages: [
      { path: "/sandboxes", title: "Sandboxes", icon: Box, key: "s", words: "machines list vm" },
      {
        path: "/tree",
        title: "Fork trees",
        icon: Network,
        key: "f",
        words: "families branches copies",
      },
      { path: "/templates", title: "Templates", icon: Boxes, key: "t", words: "images dockerfile" },
      { path: "/snapshots", title: "Snapshots", icon: Camera, key: "n", words: "saved states" },
      { path: "/volumes", title: "Volumes", icon: HardDrive, key: "v", words: "disks storage" },
      {
        path: "/databases",
        title: "Databases",
        icon: Database,
        key: "d",
        words: "postgres postgresql sql query",
      },
    ],
  },
  {
    title: "Observe",
    pages: [
      { path: "/performance", title: "Performance", icon: Gauge, key: "p", words: "boot latency" },
      { path: "/webhooks", title: "Webhooks", icon: Webhook, key: "w", words: "events deliveries" },
      { path: "/audit", title: "Audit", icon: ScrollText, key: "a", words: "trail history log" },
    ],
  },
  {
    title: "Workspace",
    pages: [
      { path: "/keys", title: "API keys", icon: KeyRound, key: "k", words: "tokens secrets sdk" },
      { path: "/team", title: "Team", icon: Users, key: "m", words: "members invites roles org" },
      {
        path: "/usage",
        title: "Usage",
        icon: CreditCard,
        key: "u",
        words: "billing cost plan budget",
      },
      {
        path: "/settings",
        title: "Settings",
        icon: Settings,
        key: ",",
        words: "profile theme password",
      },
    ],
  },
];

export const PAGES: readonly PageInfo[] = PAGE_GROUPS.flatMap(({ pages }) => pages);
