import { Link, useNavigate } from "@tanstack/react-router";
import {
  Camera,
  ChevronDown,
  Ellipsis,
  GitFork,
  Moon,
  Network,
  Pause,
  Play,
  Sunrise,
  Trash2,
} from "lucide-react";
import { type ReactNode, useState } from "react";
import { useCommands } from "@/app/commands";
import { applicable, type SandboxAction, useSandboxActions } from "@/data/actions";
import type { SandboxInfo } from "@/data/queries";
import { useTreeActions } from "@/data/treeActions";
import {
  Badge,
  Button,
  buttonClass,
  ConfirmDialog,
  CopyId,
  cx,
  IconButton,
  Menu,
  MenuItem,
  MenuSeparator,
  PageHeader,
  StateBadge,
  Tooltip,
  useHotkey,
} from "@/ui";
import { labelsOf, nameOf } from "../sandboxes/filter";
import { lossesOf } from "../sandboxes/losses";

const COPIES = [2, 3, 4, 8];

const STATE_ACTIONS: readonly { action: SandboxAction; label: string; icon: ReactNode }[] = [
  { action: "wake", label: "Wake", icon: <Sunrise key="wake" size={14} /> },
  { action: "resume", label: "Resume", icon: <Play key="resume" size={14} /> },
  { action: "pause", label: "Pause", icon: <Pause key="pause" size={14} /> },
  { action: "hibernate", label: "Sleep", icon: <Moon key="sleep" size={14} /> },
];

interface HeaderControl {
  readonly id: string;
  readonly isLive: boolean;
  readonly isGone: boolean;
  readonly usable: typeof STATE_ACTIONS;
  readonly busy: "fork" | "snapshot" | undefined;
  run(action: SandboxAction): void;
  fork(count: number): void;
  snapshot(): void;
  showTree(): void;
}

/** What can be done with a sandbox in its state. */
function useControl(sandbox: SandboxInfo): HeaderControl {
  const { id, status } = sandbox;
  const navigate = useNavigate();
  const actions = useSandboxActions();
  const tree = useTreeActions();
  const [busy, setBusy] = useState<"fork" | "snapshot">();
  const showTree = () => navigate({ to: "/tree/$id", params: { id } });
  const fork = async (count: number): Promise<void> => {
    if (count > 1) {
      if (await tree.forkMany(id, count)) await showTree();
      return;
    }
    const child = await actions.fork(id);
    if (child === undefined) return;
    await navigate({ to: "/sandboxes/$id/$tab", params: { id: child, tab: "terminal" } });
  };
  const during = (what: "fork" | "snapshot", work: Promise<unknown>): void => {
    setBusy(what);
    void work.finally(() => setBusy(undefined));
  };
  return {
    id,
    busy,
    isLive: ["running", "paused", "hibernated"].includes(status),
    isGone: status === "deleted" || status === "stopping",
    usable: STATE_ACTIONS.filter(({ action }) => applicable(action, [sandbox]).length > 0),
    run: (action) => void actions.run(action, [id]),
    fork: (count) => during("fork", fork(count)),
    snapshot: () => during("snapshot", actions.snapshot(id)),
    showTree: () => void showTree(),
  };
}

/** Offers the same in the palette. */
function useControlCommands(control: HeaderControl, onDelete: () => void): void {
  const { isLive, isGone, usable, run, fork, snapshot, showTree } = control;
  const group = "Sandbox";
  const live = [
    {
      id: "sandbox-fork",
      group,
      title: "Fork this sandbox",
      shortcut: "shift+f",
      run: () => fork(1),
    },
    { id: "sandbox-snapshot", group, title: "Save a snapshot", run: snapshot },
  ];
  useCommands([
    ...usable.map(({ action, label }) => ({
      id: `sandbox-${action}`,
      group,
      title: `${label} this sandbox`,
      run: () => run(action),
    })),
    ...(isLive ? live : []),
    { id: "sandbox-tree", group, title: "Show the fork tree", shortcut: "shift+t", run: showTree },
    ...(isGone
      ? []
      : [{ id: "sandbox-delete", group, title: "Delete this sandbox…", run: onDelete }]),
  ]);
  useHotkey("shift+f", () => fork(1), { enabled: isLive });
  useHotkey("shift+t", showTree);
}

/** Who the sandbox is, and what can be done with it. */
export function SandboxHeader(props: {
  sandbox: SandboxInfo;
  deleting: boolean;
  onDeleting: (deleting: boolean) => void;
}) {
  const { sandbox, deleting, onDeleting } = props;
  const { id, status } = sandbox;
  const control = useControl(sandbox);
  const actions = useSandboxActions();
  useControlCommands(control, () => onDeleting(true));
  return (
    <>
      <PageHeader
        title={nameOf(sandbox) ?? `Sandbox ${id.slice(0, 8)}`}
        aside={
          <>
            <StateBadge state={status} title={sandbox.status_reason} />
            <CopyId id={id} />
            <Badge>{sandbox.template}</Badge>
            {labelsOf(sandbox)
              .slice(0, 4)
              .map(([key, value]) => (
                <Badge key={key} className="hidden max-w-48 truncate lg:inline-flex">
                  {key}={value}
                </Badge>
              ))}
          </>
        }
        actions={
          !control.isGone && <HeaderActions control={control} onDelete={() => onDeleting(true)} />
        }
      />
      {deleting && (
        <ConfirmDialog
          open
          onClose={() => onDeleting(false)}
          title={`Delete ${nameOf(sandbox) ?? id}?`}
          lost={lossesOf([sandbox])}
          action="Delete the sandbox"
          onConfirm={() => actions.run("delete", [id])}
        />
      )}
    </>
  );
}

function HeaderActions({ control, onDelete }: { control: HeaderControl; onDelete: () => void }) {
  const { id, isLive, usable, busy, run, snapshot } = control;
  return (
    <>
      {usable.map(({ action, label, icon }) => (
        <Button key={action} icon={icon} onClick={() => run(action)} className="max-sm:hidden">
          {label}
        </Button>
      ))}
      <ForkButton control={control} />
      <Tooltip text="Fork tree" shortcut="shift+t">
        <Link
          to="/tree/$id"
          params={{ id }}
          aria-label="Fork tree"
          className={cx(buttonClass(), "w-8 px-0!")}
        >
          <Network size={14} />
        </Link>
      </Tooltip>
      <Menu
        label="More actions"
        trigger={
          <IconButton label="More actions" variant="secondary" icon={<Ellipsis size={16} />} />
        }
      >
        <MenuItem
          icon={<Camera size={14} />}
          disabled={!isLive || busy === "snapshot"}
          onSelect={snapshot}
        >
          Save a snapshot
        </MenuItem>
        {usable.map(({ action, label, icon }) => (
          <MenuItem key={action} icon={icon} onSelect={() => run(action)}>
            {label}
          </MenuItem>
        ))}
        <MenuSeparator />
        <MenuItem danger icon={<Trash2 size={14} />} onSelect={onDelete}>
          Delete…
        </MenuItem>
      </Menu>
    </>
  );
}

/** One copy by a click, several by the menu beside it. */
function ForkButton({ control: { isLive, busy, fork } }: { control: HeaderControl }) {
  return (
    <span className="inline-flex">
      <Button
        variant="primary"
        icon={<GitFork size={14} />}
        loading={busy === "fork"}
        disabled={!isLive}
        className="rounded-r-none"
        onClick={() => fork(1)}
      >
        Fork
      </Button>
      <Menu
        label="Fork several times"
        trigger={
          <button
            type="button"
            aria-label="Fork several times"
            disabled={!isLive || busy === "fork"}
            className={cx(buttonClass("primary"), "rounded-l-none border-l-accent-hover! px-1.5!")}
          >
            <ChevronDown size={14} />
          </button>
        }
      >
        {COPIES.map((count) => (
          <MenuItem key={count} icon={<GitFork size={14} />} onSelect={() => fork(count)}>
            {count} copies as a tree
          </MenuItem>
        ))}
      </Menu>
    </span>
  );
}
