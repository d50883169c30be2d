import { PandaStackError } from "@pandastack/sdk";
import { useNavigate } from "@tanstack/react-router";
import { Check, ChevronsUpDown, Plus } from "lucide-react";
import { useState } from "react";
import { client } from "@/data/client";
import { useMe, useSessionChanged } from "@/data/session";
import { useSubmit } from "@/pages/signin/useSubmit";
import {
  Button,
  Dialog,
  ErrorNote,
  Field,
  Input,
  Menu,
  MenuItem,
  MenuLabel,
  MenuSeparator,
  toast,
} from "@/ui";
import { useCommands } from "./commands";

/** Chooses the organisation that the page acts in. */
export function OrgSwitcher() {
  const me = useMe();
  const navigate = useNavigate();
  const changed = useSessionChanged();
  const [creating, setCreating] = useState(false);
  const orgs = me.orgs ?? [];

  const use = async (id: string, name: string): Promise<void> => {
    try {
      await client.orgs.use(id);
      await navigate({ to: "/" });
      await changed();
      toast.success(`Now in ${name}`);
    } catch (error) {
      toast.error(error);
    }
  };

  useOrgCommands(use, () => setCreating(true));

  return (
    <>
      <Menu
        align="start"
        label="Organisations"
        className="w-64"
        trigger={
          <button
            type="button"
            aria-label={`Organisation ${me.current_org?.name ?? me.workspace}`}
            className="flex h-8 max-w-44 min-w-0 items-center gap-1.5 rounded-md px-2 text-sm font-medium hover:bg-hover"
          >
            <span className="truncate">{me.current_org?.name ?? me.workspace}</span>
            <ChevronsUpDown size={14} aria-hidden="true" className="shrink-0 text-faint" />
          </button>
        }
      >
        <MenuLabel>Organisations</MenuLabel>
        {orgs.map(({ id, name, role }) => (
          <MenuItem
            key={id}
            icon={
              <Check
                size={14}
                className={id === me.current_org_id ? "text-ok" : "opacity-0"}
                aria-hidden="true"
              />
            }
            onSelect={() => {
              if (id !== me.current_org_id) void use(id, name);
            }}
          >
            {name} <span className="text-xs text-muted">{role}</span>
          </MenuItem>
        ))}
        <MenuSeparator />
        <MenuItem icon={<Plus size={14} />} onSelect={() => setCreating(true)}>
          Create an organisation
        </MenuItem>
      </Menu>
      {creating && <CreateOrg onClose={() => setCreating(false)} onCreated={use} />}
    </>
  );
}

function useOrgCommands(use: (id: string, name: string) => Promise<void>, create: () => void) {
  const me = useMe();
  useCommands([
    ...(me.orgs ?? [])
      .filter(({ id }) => id !== me.current_org_id)
      .map(({ id, name }) => ({
        id: `org-${id}`,
        group: "Organisation",
        title: `Switch to ${name}`,
        run: () => void use(id, name),
      })),
    {
      id: "create-org",
      group: "Organisation",
      title: "Create an organisation",
      words: "new team workspace",
      run: create,
    },
  ]);
}

function CreateOrg(props: {
  onClose: () => void;
  onCreated: (id: string, name: string) => Promise<void>;
}) {
  const [name, setName] = useState("");
  const [slug, setSlug] = useState("");
  const { busy, error, submit } = useSubmit(async () => {
    const org = await client.orgs.create(name.trim(), slug === "" ? {} : { slug });
    props.onClose();
    await props.onCreated(org.id, org.name);
  });
  const isTaken = error instanceof PandaStackError && error.code === "org.slug_taken";
  return (
    <Dialog
      open
      onClose={props.onClose}
      title="Create an organisation"
      description="It has its own sandboxes, keys, members and bill."
      size="sm"
    >
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="Name">
          {(control) => (
            <Input
              {...control}
              required
              maxLength={64}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        {(isTaken || slug !== "") && (
          <Field
            label="Workspace"
            hint="The one that follows from the name is taken. Small letters, digits and hyphens"
          >
            {(control) => (
              <Input
                {...control}
                required
                maxLength={64}
                autoComplete="off"
                value={slug}
                onChange={(event) => setSlug(event.target.value)}
              />
            )}
          </Field>
        )}
        {error !== undefined && <ErrorNote error={error} title="It was not created" />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy} disabled={name.trim() === ""}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
