import { Moon, Pause, Play, Sunrise, Trash2, X } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useCommands } from "@/app/commands";
import { applicable, type SandboxAction, useSandboxActions } from "@/data/actions";
import { plural } from "@/data/format";
import type { SandboxInfo } from "@/data/queries";
import { Button, ConfirmDialog, IconButton } from "@/ui";
import { lossesOf } from "./losses";

const BUTTONS: readonly [SandboxAction, string, ReactNode][] = [
  ["pause", "Pause", <Pause key="pause" size={14} />],
  ["resume", "Resume", <Play key="resume" size={14} />],
  ["hibernate", "Sleep", <Moon key="sleep" size={14} />],
  ["wake", "Wake", <Sunrise key="wake" size={14} />],
];

/** What can be done with the selected sandboxes. */
export function BulkBar(props: { sandboxes: readonly SandboxInfo[]; onClear: () => void }) {
  const { sandboxes, onClear } = props;
  const actions = useSandboxActions();
  const [deleting, setDeleting] = useState(false);
  const run = (action: SandboxAction): void => {
    void actions.run(
      action,
      applicable(action, sandboxes).map(({ id }) => id),
    );
    onClear();
  };
  const usable = BUTTONS.filter(([action]) => applicable(action, sandboxes).length > 0);
  useCommands([
    ...usable.map(([action, label]) => ({
      id: `bulk-${action}`,
      group: "Selection",
      title: `${label} ${plural(applicable(action, sandboxes).length, "selected sandbox", "selected sandboxes")}`,
      run: () => run(action),
    })),
    {
      id: "bulk-delete",
      group: "Selection",
      title: `Delete ${plural(sandboxes.length, "selected sandbox", "selected sandboxes")}`,
      run: () => setDeleting(true),
    },
  ]);
  return (
    <div
      role="toolbar"
      aria-label="Selected sandboxes"
      className="flex flex-wrap items-center gap-2 px-4 pb-3 md:px-6"
    >
      <IconButton label="Clear the selection" icon={<X size={16} />} onClick={onClear} />
      <span className="mr-2 text-sm">
        {plural(sandboxes.length, "sandbox", "sandboxes")} selected
      </span>
      {BUTTONS.map(([action, label, icon]) => {
        const number = applicable(action, sandboxes).length;
        return (
          <Button key={action} icon={icon} disabled={number === 0} onClick={() => run(action)}>
            {label}
            {number > 0 && number < sandboxes.length && (
              <span className="text-xs text-muted">{number}</span>
            )}
          </Button>
        );
      })}
      <Button variant="danger" icon={<Trash2 size={14} />} onClick={() => setDeleting(true)}>
        Delete
      </Button>
      {deleting && (
        <ConfirmDialog
          open
          onClose={() => setDeleting(false)}
          title={`Delete ${plural(sandboxes.length, "sandbox", "sandboxes")}?`}
          lost={lossesOf(sandboxes)}
          action={`Delete ${plural(sandboxes.length, "sandbox", "sandboxes")}`}
          onConfirm={() => {
            // The list shows the rest; waiting here would only hide it.
            run("delete");
          }}
        />
      )}
    </div>
  );
}
