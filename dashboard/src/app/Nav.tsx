import { Link } from "@tanstack/react-router";
import { PanelLeftClose, PanelLeftOpen } from "lucide-react";
import { useState } from "react";
import { cx, IconButton, Tooltip } from "@/ui";
import { Logo } from "./Logo";
import { PAGE_GROUPS, type PageInfo } from "./pages";

const KEY = "pandastack-nav";

/** Whether the navigation shows only icons. Kept in the browser: it is no secret. */
export function useNavCollapsed(): [boolean, (collapsed: boolean) => void] {
  const [collapsed, setCollapsed] = useState(() => {
    try {
      return window.localStorage.getItem(KEY) === "small";
    } catch {
      return false;
    }
  });
  return [
    collapsed,
    (next) => {
      setCollapsed(next);
      try {
        window.localStorage.setItem(KEY, next ? "small" : "wide");
      } catch {
        // Without storage the choice lasts as long as the page.
      }
    },
  ];
}

/** The pages. */
export function Nav({ collapsed, onToggle }: { collapsed: boolean; onToggle?: () => void }) {
  return (
    <nav
      aria-label="Pages"
      className={cx(
        "flex h-full flex-col gap-3 overflow-y-auto py-3",
        collapsed ? "w-13 px-2" : "w-52 px-3",
      )}
    >
      {onToggle && (
        <Link
          to="/"
          aria-label="PandaStack overview"
          className="flex h-7 items-center gap-2 rounded px-1.5"
        >
          <Logo />
          {!collapsed && <span className="text-sm font-semibold">PandaStack</span>}
        </Link>
      )}
      {PAGE_GROUPS.map((group) => (
        <div key={group.title} className="flex flex-col gap-px">
          {group.title !== "" && (
            <div
              className={cx("px-2 pb-1 text-2xs font-medium text-faint", collapsed && "sr-only")}
            >
              {group.title}
            </div>
          )}
          {group.pages.map((page) => (
            <NavLink key={page.path} page={page} collapsed={collapsed} />
          ))}
        </div>
      ))}
      {onToggle && (
        <div className="mt-auto pt-2">
          <IconButton
            size="sm"
            label={collapsed ? "Show the names" : "Show only icons"}
            shortcut="["
            icon={collapsed ? <PanelLeftOpen size={16} /> : <PanelLeftClose size={16} />}
            onClick={onToggle}
          />
        </div>
      )}
    </nav>
  );
}

function NavLink({ page, collapsed }: { page: PageInfo; collapsed: boolean }) {
  const Icon = page.icon;
  const link = (
    <Link
      to={page.path}
      activeOptions={{ exact: page.path === "/", includeSearch: false }}
      aria-label={collapsed ? page.title : undefined}
      className={cx(
        "flex h-8 items-center gap-2.5 rounded-md text-sm text-muted hover:bg-hover hover:text-ink md:h-7",
        "data-[status=active]:bg-hover data-[status=active]:font-medium data-[status=active]:text-ink",
        collapsed ? "justify-center px-0" : "px-2",
      )}
    >
      <Icon size={16} strokeWidth={1.75} aria-hidden="true" className="shrink-0" />
      {!collapsed && page.title}
    </Link>
  );
  if (!collapsed) return link;
  return (
    <Tooltip text={page.title} shortcut={`g ${page.key}`}>
      {link}
    </Tooltip>
  );
}
