import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Navigate, Outlet, useNavigate, useRouter, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { startEvents } from "@/data/events";
import { meQuery } from "@/data/session";
import { Dialog, Loading, useHotkey } from "@/ui";
import { useCommands } from "./commands";
import { Nav, useNavCollapsed } from "./Nav";
import { Palette } from "./Palette";
import { PAGES, type PageInfo } from "./pages";
import { ShortcutSheet } from "./ShortcutSheet";
import { shellCommands } from "./shellCommands";
import { TopBar } from "./TopBar";

/** Navigation, top bar, palette and shortcuts around every page. */
export function Shell() {
  const { data: me } = useQuery(meQuery);
  if (me === undefined) return <Loading />;
  if (me === null) return <Leave />;
  // Another person or workspace is another page: nothing of the old one may stay.
  const who = `${me.user_id}/${me.workspace}`;
  return <SignedIn key={who} who={who} />;
}

/** To the sign-in page, which leads back. The address changes meanwhile, so it is read only once. */
function Leave() {
  const { state } = useRouter();
  const [next] = useState(state.location.href);
  return <Navigate to="/signin" search={{ next }} replace />;
}

function SignedIn({ who }: { who: string }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [palette, setPalette] = useState(false);
  const [sheet, setSheet] = useState(false);
  const [drawer, setDrawer] = useState(false);
  const [collapsed, setCollapsed] = useNavCollapsed();
  const path = useRouterState({ select: ({ location }) => location.pathname });

  useEffect(() => startEvents(queries, who), [queries, who]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page closes the drawer
  useEffect(() => setDrawer(false), [path]);

  useHotkey("mod+k", () => setPalette((open) => !open), { always: true });
  useHotkey("/", () => focusFilter() || setPalette(true));
  useHotkey("?", () => setSheet(true));
  useHotkey("[", () => setCollapsed(!collapsed));
  useCommands(shellCommands({ navigate, showShortcuts: () => setSheet(true) }));

  return (
    <div className="flex h-full">
      {PAGES.map((page) => (
        <PageKey key={page.path} page={page} />
      ))}
      <a
        href="#content"
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded focus:bg-panel focus:p-2"
      >
        Skip to the content
      </a>
      <aside className="hidden shrink-0 border-r border-line bg-sunken md:block">
        <Nav collapsed={collapsed} onToggle={() => setCollapsed(!collapsed)} />
      </aside>
      <div className="flex min-w-0 flex-1 flex-col">
        <TopBar
          onMenu={() => setDrawer(true)}
          onSearch={() => setPalette(true)}
          onHelp={() => setSheet(true)}
        />
        <main
          id="content"
          tabIndex={-1}
          className="min-h-0 flex-1 overflow-y-auto focus:outline-none"
        >
          <Outlet />
        </main>
      </div>
      <Dialog open={drawer} onClose={() => setDrawer(false)} title="PandaStack" place="drawer">
        <Nav collapsed={false} />
      </Dialog>
      <Palette open={palette} onClose={() => setPalette(false)} />
      <ShortcutSheet open={sheet} onClose={() => setSheet(false)} />
    </div>
  );
}

function PageKey({ page }: { page: PageInfo }) {
  const navigate = useNavigate();
  useHotkey(`g ${page.key}`, () => void navigate({ to: page.path }));
  return null;
}

/** Puts the cursor into the filter of the page, if it has one. */
function focusFilter(): boolean {
  const filter = document.querySelector<HTMLElement>("#content [role=searchbox]");
  filter?.focus();
  return filter !== null;
}
