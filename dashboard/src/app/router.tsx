import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import type { ReactNode } from "react";
import { sandboxesQuery } from "@/data/queries";
import { mayBeSignedIn, meQuery } from "@/data/session";
import { Sandboxes } from "@/pages/sandboxes";
import { Loading, loadPart } from "@/ui";
import { NotFound, PageError } from "./Problem";
import { Shell } from "./Shell";

interface Context {
  queryClient: QueryClient;
}

const root = createRootRouteWithContext<Context>()({ notFoundComponent: NotFound });

/** A page whose code is loaded when somebody goes there. */
function page<T extends Record<Name, () => ReactNode>, Name extends string>(
  load: () => Promise<T>,
  name: Name,
) {
  return lazyRouteComponent(() => loadPart(load), name);
}

/** Pages without the shell, for people who are not signed in. */
const signin = createRoute({
  getParentRoute: () => root,
  path: "/signin",
  validateSearch: (search: Record<string, unknown>) =>
    textSearch(search, ["next", "code", "error"]),
  component: page(() => import("@/pages/signin"), "SignIn"),
});

/** The one-time link that the server prints. Its secret is in the fragment. */
const welcome = createRoute({
  getParentRoute: () => root,
  path: "/welcome",
  component: page(() => import("@/pages/setup"), "Welcome"),
});

const invite = createRoute({
  getParentRoute: () => root,
  path: "/invite/$token",
  component: page(() => import("@/pages/invite"), "AcceptInvite"),
});

/** A link to choose a new password. Its secret is in the fragment. */
const reset = createRoute({
  getParentRoute: () => root,
  path: "/reset",
  component: page(() => import("@/pages/signin/reset"), "ResetPassword"),
});

/** Everything else needs a signed-in person. */
const app = createRoute({
  getParentRoute: () => root,
  id: "app",
  component: Shell,
  beforeLoad: async ({ context, location }) => {
    // The list is what most people open, and it must not wait until the answer says who they are.
    const needsList = location.pathname === "/" || location.pathname === "/sandboxes";
    if (needsList && mayBeSignedIn()) void context.queryClient.prefetchQuery(sandboxesQuery);
    const me = await context.queryClient.ensureQueryData(meQuery);
    if (me === null) throw redirect({ to: "/signin", search: { next: location.href } });
  },
});

const overview = createRoute({
  getParentRoute: () => app,
  path: "/",
  component: page(() => import("@/pages/overview"), "Overview"),
});

export interface SandboxSearch {
  /** The text of the filter. */
  q?: string | undefined;
  state?: string | undefined;
  template?: string | undefined;
  /** Machines of databases are shown only on request: `database` or `all`. */
  kind?: string | undefined;
  create?: boolean | undefined;
}

const sandboxes = createRoute({
  getParentRoute: () => app,
  path: "/sandboxes",
  validateSearch: (search: Record<string, unknown>): SandboxSearch => ({
    ...textSearch(search, ["q", "state", "template", "kind"]),
    ...(search["create"] === true ? { create: true } : {}),
  }),
  // The page that people open most: part of the first load, so that it needs no second round trip.
  component: Sandboxes,
});

const sandbox = createRoute({
  getParentRoute: () => app,
  path: "/sandboxes/$id",
  component: page(() => import("@/pages/sandbox"), "SandboxPage"),
});

const sandboxTab = createRoute({
  getParentRoute: () => app,
  path: "/sandboxes/$id/$tab",
  // The open file and the folder of the file tree.
  validateSearch: (search: Record<string, unknown>) => textSearch(search, ["path", "root"]),
  component: page(() => import("@/pages/sandbox"), "SandboxPage"),
});

const forest = createRoute({
  getParentRoute: () => app,
  path: "/tree",
  validateSearch: (search: Record<string, unknown>) => textSearch(search, ["node", "with"]),
  component: page(() => import("@/pages/tree"), "ForestPage"),
});

const tree = createRoute({
  getParentRoute: () => app,
  path: "/tree/$id",
  // The chosen sandbox, and the one that it is compared with.
  validateSearch: (search: Record<string, unknown>) => textSearch(search, ["node", "with"]),
  component: page(() => import("@/pages/tree"), "TreePage"),
});

const snapshots = createRoute({
  getParentRoute: () => app,
  path: "/snapshots",
  component: page(() => import("@/pages/snapshots"), "Snapshots"),
});

export interface CreateSearch {
  /** The form for a new one is open. */
  create?: boolean | undefined;
}

function createSearch(search: Record<string, unknown>): CreateSearch {
  return search["create"] === true ? { create: true } : {};
}

export interface TemplateSearch {
  /** The build whose log is shown. */
  build?: string | undefined;
  create?: boolean | undefined;
}

const templates = createRoute({
  getParentRoute: () => app,
  path: "/templates",
  validateSearch: (search: Record<string, unknown>): TemplateSearch => ({
    ...textSearch(search, ["build"]),
    ...(search["create"] === true ? { create: true } : {}),
  }),
  component: page(() => import("@/pages/templates"), "Templates"),
});

const volumes = createRoute({
  getParentRoute: () => app,
  path: "/volumes",
  validateSearch: createSearch,
  component: page(() => import("@/pages/volumes"), "Volumes"),
});

export interface DatabaseSearch extends CreateSearch {
  /** The families as a picture, not the list. */
  view?: "tree" | undefined;
}

const databases = createRoute({
  getParentRoute: () => app,
  path: "/databases",
  validateSearch: (search: Record<string, unknown>): DatabaseSearch => ({
    ...createSearch(search),
    ...(search["view"] === "tree" ? { view: "tree" } : {}),
  }),
  component: page(() => import("@/pages/databases"), "Databases"),
});

const database = createRoute({
  getParentRoute: () => app,
  path: "/databases/$id",
  component: page(() => import("@/pages/database"), "DatabasePage"),
});

const databaseTab = createRoute({
  getParentRoute: () => app,
  path: "/databases/$id/$tab",
  component: page(() => import("@/pages/database"), "DatabasePage"),
});

const webhooks = createRoute({
  getParentRoute: () => app,
  path: "/webhooks",
  validateSearch: createSearch,
  component: page(() => import("@/pages/webhooks"), "Webhooks"),
});

const webhook = createRoute({
  getParentRoute: () => app,
  path: "/webhooks/$id",
  component: page(() => import("@/pages/webhooks/Detail"), "WebhookPage"),
});

const audit = createRoute({
  getParentRoute: () => app,
  path: "/audit",
  component: page(() => import("@/pages/audit"), "Audit"),
});

const performance = createRoute({
  getParentRoute: () => app,
  path: "/performance",
  component: page(() => import("@/pages/performance"), "Performance"),
});

const keys = createRoute({
  getParentRoute: () => app,
  path: "/keys",
  validateSearch: createSearch,
  component: page(() => import("@/pages/keys"), "Keys"),
});

const team = createRoute({
  getParentRoute: () => app,
  path: "/team",
  validateSearch: createSearch,
  component: page(() => import("@/pages/team"), "Team"),
});

const usage = createRoute({
  getParentRoute: () => app,
  path: "/usage",
  component: page(() => import("@/pages/usage"), "Usage"),
});

const settings = createRoute({
  getParentRoute: () => app,
  path: "/settings",
  component: page(() => import("@/pages/settings"), "Settings"),
});

const routeTree = root.addChildren([
  signin,
  welcome,
  invite,
  reset,
  app.addChildren([
    overview,
    sandboxes,
    sandbox,
    sandboxTab,
    forest,
    tree,
    snapshots,
    templates,
    volumes,
    databases,
    database,
    databaseTab,
    webhooks,
    webhook,
    audit,
    performance,
    keys,
    team,
    usage,
    settings,
  ]),
]);

export const router = createRouter({
  routeTree,
  context: { queryClient: undefined as unknown as QueryClient },
  defaultPreload: "intent",
  defaultPreloadStaleTime: 0,
  defaultPendingComponent: Loading,
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

/** The named text fields of a search; everything else is dropped. */
function textSearch<Name extends string>(
  search: Record<string, unknown>,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = search[name];
    if (typeof value === "string" || typeof value === "number") found[name] = String(value);
  }
  return found;
}
