import { useNavigate } from "@tanstack/react-router";
import {
  Camera,
  Ellipsis,
  GitFork,
  type LucideIcon,
  Moon,
  Network,
  Pause,
  Play,
  SquareTerminal,
  Sunrise,
  Trash2,
} from "lucide-react";
import { memo, useEffect, useRef, useState } from "react";
import { applicable, type SandboxAction, useSandboxActions } from "@/data/actions";
import type { SandboxInfo } from "@/data/queries";
import { ConfirmDialog, Menu, MenuItem, MenuSeparator } from "@/ui";
import { nameOf } from "./filter";
import { lossesOf } from "./losses";

/** The actions on one row. The menu is only built when it is opened: there are many rows. */
export const RowMenu = memo(function RowMenu({ sandbox }: { sandbox: SandboxInfo }) {
  const [armed, setArmed] = useState<"pointer" | "focus" | "open">();
  const label = `Actions of ${nameOf(sandbox) ?? sandbox.id}`;
  if (armed) return <ArmedMenu sandbox={sandbox} label={label} armed={armed} />;
  return (
    <button
      type="button"
      aria-label={label}
      aria-haspopup="menu"
      className="rounded p-1 text-faint hover:bg-hover hover:text-ink"
      onPointerEnter={() => setArmed("pointer")}
      onPointerDown={(event) => {
        if (event.button !== 0 || event.ctrlKey) return;
        // The menu takes the focus, so this button must not.
        event.preventDefault();
        setArmed("open");
      }}
      onClick={() => setArmed("open")}
      onFocus={() => setArmed("focus")}
    >
      <svg width="16" height="16" viewBox="0 0 24 24" fill="currentColor" aria-hidden="true">
        <circle cx="5" cy="12" r="1.5" />
        <circle cx="12" cy="12" r="1.5" />
        <circle cx="19" cy="12" r="1.5" />
      </svg>
    </button>
  );
});

const STATE_ITEMS: readonly { action: SandboxAction; label: string; icon: LucideIcon }[] = [
  { action: "pause", label: "Pause", icon: Pause },
  { action: "resume", label: "Resume", icon: Play },
  { action: "hibernate", label: "Put to sleep", icon: Moon },
  { action: "wake", label: "Wake", icon: Sunrise },
];

/** What its state allows. */
function StateItems({ sandbox }: { sandbox: SandboxInfo }) {
  const actions = useSandboxActions();
  const usable = STATE_ITEMS.filter(({ action }) => applicable(action, [sandbox]).length > 0);
  return usable.map(({ action, label, icon: Icon }) => (
    <MenuItem
      key={action}
      icon={<Icon size={14} />}
      onSelect={() => void actions.run(action, [sandbox.id])}
    >
      {label}
    </MenuItem>
  ));
}

type Armed = "pointer" | "focus" | "open";

function ArmedMenu(props: { sandbox: SandboxInfo; label: string; armed: Armed }) {
  const { sandbox, label, armed } = props;
  const { id } = sandbox;
  const actions = useSandboxActions();
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const trigger = useRef<HTMLButtonElement>(null);
  // The button takes the place of one that had the focus.
  useEffect(() => {
    if (armed === "focus") trigger.current?.focus({ preventScroll: true });
  }, [armed]);
  return (
    <>
      <Menu
        label={label}
        defaultOpen={armed === "open"}
        trigger={
          <button
            type="button"
            aria-label={label}
            ref={trigger}
            className="rounded p-1 text-faint hover:bg-hover hover:text-ink"
          >
            <Ellipsis size={16} />
          </button>
        }
      >
        <MenuItem
          icon={<SquareTerminal size={14} />}
          onSelect={() =>
            void navigate({ to: "/sandboxes/$id/$tab", params: { id, tab: "terminal" } })
          }
        >
          Open the terminal
        </MenuItem>
        <MenuItem
          icon={<Network size={14} />}
          onSelect={() => void navigate({ to: "/tree/$id", params: { id } })}
        >
          Show the fork tree
        </MenuItem>
        <MenuSeparator />
        <MenuItem icon={<GitFork size={14} />} onSelect={() => void actions.fork(id)}>
          Fork
        </MenuItem>
        <MenuItem icon={<Camera size={14} />} onSelect={() => void actions.snapshot(id)}>
          Save a snapshot
        </MenuItem>
        <MenuSeparator />
        <StateItems sandbox={sandbox} />
        <MenuItem danger icon={<Trash2 size={14} />} onSelect={() => setDeleting(true)}>
          Delete…
        </MenuItem>
      </Menu>
      {deleting && (
        <ConfirmDialog
          open
          onClose={() => setDeleting(false)}
          title={`Delete ${nameOf(sandbox) ?? id}?`}
          lost={lossesOf([sandbox])}
          action="Delete the sandbox"
          onConfirm={() => void actions.run("delete", [id])}
        />
      )}
    </>
  );
}
