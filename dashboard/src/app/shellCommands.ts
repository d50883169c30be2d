import type { useNavigate } from "@tanstack/react-router";
import { signOut } from "@/data/session";
import { toast } from "@/ui";
import type { Command } from "./commands";
import { setTheme } from "./theme";

interface Doors {
  navigate: ReturnType<typeof useNavigate>;
  showShortcuts: () => void;
}

/** What can be created, and the page that has the form. */
const CREATE = [
  { id: "create-sandbox", title: "Create a sandbox", words: "new machine", to: "/sandboxes" },
  { id: "build-template", title: "Build a template", words: "dockerfile new", to: "/templates" },
  { id: "create-key", title: "Create an API key", words: "new token", to: "/keys" },
  { id: "create-volume", title: "Create a volume", words: "new disk", to: "/volumes" },
  { id: "create-database", title: "Create a database", words: "new postgres", to: "/databases" },
  { id: "create-webhook", title: "Create a webhook", words: "new receiver", to: "/webhooks" },
  { id: "invite", title: "Invite somebody", words: "member team person", to: "/team" },
] as const;

/** The commands that every page has. */
export function shellCommands({ navigate, showShortcuts }: Doors): Command[] {
  return [
    ...CREATE.map(({ id, title, words, to }) => ({
      id,
      group: "Create",
      title,
      words,
      run: () => void navigate({ to, search: { create: true } }),
    })),
    theme("light", "Use the light theme"),
    theme("dark", "Use the dark theme"),
    theme("system", "Use the theme of the system"),
    {
      id: "shortcuts",
      group: "Help",
      title: "Show the keyboard shortcuts",
      words: "keys help",
      shortcut: "?",
      run: showShortcuts,
    },
    {
      id: "api-reference",
      group: "Help",
      title: "Open the API reference",
      words: "docs openapi",
      run: () => window.open("/docs", "_blank", "noopener"),
    },
    {
      id: "sign-out",
      group: "Account",
      title: "Sign out",
      words: "log out leave",
      run: () => void signOut().catch((error: unknown) => toast.error(error)),
    },
  ];
}

function theme(choice: "light" | "dark" | "system", title: string): Command {
  return {
    id: `theme-${choice}`,
    group: "Theme",
    title,
    words: "colour appearance mode",
    run: () => setTheme(choice),
  };
}
