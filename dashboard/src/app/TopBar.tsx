import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import {
  CircleUser,
  Keyboard,
  LogOut,
  Menu as MenuIcon,
  Monitor,
  Moon,
  Search,
  Sun,
} from "lucide-react";
import { useSyncExternalStore } from "react";
import { streamState } from "@/data/events";
import { healthQuery, versionQuery } from "@/data/queries";
import { signOut, useMe } from "@/data/session";
import {
  cx,
  IconButton,
  Kbd,
  Menu,
  MenuChoice,
  MenuItem,
  MenuLabel,
  MenuSeparator,
  Tooltip,
  toast,
} from "@/ui";
import { OrgSwitcher } from "./OrgSwitcher";
import { setTheme, useTheme } from "./theme";

export function TopBar(props: { onMenu: () => void; onSearch: () => void; onHelp: () => void }) {
  return (
    <div className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3 md:px-4">
      <IconButton
        label="Pages"
        icon={<MenuIcon size={18} />}
        className="md:hidden"
        onClick={props.onMenu}
      />
      <OrgSwitcher />
      <div className="flex flex-1 justify-center">
        <button
          type="button"
          onClick={props.onSearch}
          className={cx(
            "flex h-8 w-8 items-center justify-center gap-2 rounded-md border border-line bg-panel text-muted",
            "hover:bg-hover sm:w-full sm:max-w-96 sm:justify-start sm:px-2.5",
          )}
        >
          <Search size={14} aria-hidden="true" />
          <span className="sr-only flex-1 text-left text-sm sm:not-sr-only">
            Search or run a command
          </span>
          <span aria-hidden="true" className="hidden sm:inline">
            <Kbd keys="mod+k" />
          </span>
        </button>
      </div>
      <Health />
      <ThemeMenu />
      <UserMenu onHelp={props.onHelp} />
    </div>
  );
}

/** Whether the server works, and whether this page is live. */
function Health() {
  const health = useQuery(healthQuery);
  const version = useQuery(versionQuery);
  const stream = useSyncExternalStore(streamState.subscribe, streamState.get);
  const isDown = health.isError || (health.data !== undefined && health.data.status !== "ok");
  const [dot, text] = isDown
    ? ["bg-dot-danger", "The server does not answer as it should"]
    : stream === "down"
      ? ["bg-dot-warn", "Not live: lists are read every 15 seconds"]
      : stream === "connecting"
        ? ["bg-dot-off", "Connecting"]
        : ["bg-dot-ok", "Live: changes appear at once"];
  return (
    <Tooltip text={`${text}. Version ${version.data?.semver ?? "unknown"}`}>
      <button
        type="button"
        aria-label={`Server: ${text}`}
        data-stream={stream}
        className="flex size-8 cursor-default items-center justify-center rounded-md"
      >
        <span className={cx("size-2 rounded-full", dot, stream === "down" && "animate-breathe")} />
      </button>
    </Tooltip>
  );
}

function ThemeMenu() {
  const theme = useTheme();
  const icons = {
    light: <Sun size={16} />,
    dark: <Moon size={16} />,
    system: <Monitor size={16} />,
  };
  return (
    <Menu
      label="Theme"
      trigger={<IconButton label="Theme" icon={icons[theme]} className="hidden sm:inline-flex" />}
    >
      <MenuChoice
        value={theme}
        onChange={setTheme}
        choices={[
          { value: "light", label: "Light" },
          { value: "dark", label: "Dark" },
          { value: "system", label: "As the system" },
        ]}
      />
    </Menu>
  );
}

function UserMenu({ onHelp }: { onHelp: () => void }) {
  const me = useMe();
  const navigate = useNavigate();
  return (
    <Menu
      label="Account"
      className="w-60"
      trigger={<IconButton label="Account" icon={<CircleUser size={18} />} />}
    >
      <MenuLabel>
        <span className="block truncate text-sm text-ink">{me.email || me.user_id}</span>
        workspace {me.workspace}
      </MenuLabel>
      <MenuSeparator />
      <MenuItem icon={<CircleUser size={14} />} onSelect={() => void navigate({ to: "/settings" })}>
        Settings
      </MenuItem>
      <MenuItem icon={<Keyboard size={14} />} shortcut="?" onSelect={onHelp}>
        Keyboard shortcuts
      </MenuItem>
      <MenuSeparator />
      <MenuItem
        icon={<LogOut size={14} />}
        onSelect={() => void signOut().catch((error: unknown) => toast.error(error))}
      >
        Sign out
      </MenuItem>
    </Menu>
  );
}
