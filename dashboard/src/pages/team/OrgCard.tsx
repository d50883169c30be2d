import type { models } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "@/data/client";
import { keys } from "@/data/queries";
import { type Rights, useSessionChanged } from "@/data/session";
import { Button, Card, ConfirmDialog, CopyText, Field, Input, toast } from "@/ui";
import { FormError } from "../signin/FormError";
import { useSubmit } from "../signin/useSubmit";

/** Name of the organisation, and how to leave or delete it. */
export function OrgCard({ org, rights }: { org: models.Org; rights: Rights }) {
  const changed = useSessionChanged();
  const [open, setOpen] = useState<"leave" | "delete">();
  const goAway = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
      await changed();
    } catch (failure) {
      toast.error(failure);
    }
  };
  return (
    <Card title="Organisation">
      <div className="flex flex-col gap-4">
        <NameForm org={org} canManage={rights.canManage} />
        <div className="flex flex-wrap gap-x-6 gap-y-1 text-muted">
          <span>
            Workspace <CopyText text={org.slug} />
          </span>
          <span>
            Id <CopyText text={org.id} />
          </span>
          <span>Your role: {rights.role}</span>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button variant="danger" disabled={rights.isOwner} onClick={() => setOpen("leave")}>
            Leave
          </Button>
          {rights.isOwner && (
            <Button variant="danger" onClick={() => setOpen("delete")}>
              Delete the organisation
            </Button>
          )}
          {rights.isOwner && (
            <span className="self-center text-xs text-muted">
              An owner transfers the organisation before leaving.
            </span>
          )}
        </div>
      </div>
      <ConfirmDialog
        open={open === "leave"}
        onClose={() => setOpen(undefined)}
        title={`Leave ${org.name}?`}
        lost={["Your access to its sandboxes. Somebody must invite you again"]}
        action="Leave"
        onConfirm={() => goAway(() => client.orgs.leave(org.id))}
      />
      <ConfirmDialog
        open={open === "delete"}
        onClose={() => setOpen(undefined)}
        title={`Delete ${org.name}?`}
        lost={[
          "All sandboxes, snapshots, volumes and templates of the organisation",
          "All its API keys, webhooks and members",
        ]}
        typeToConfirm={org.slug}
        action="Delete the organisation"
        onConfirm={() => goAway(() => client.orgs.delete(org.id, { confirm: org.slug }))}
      />
    </Card>
  );
}

function NameForm({ org, canManage }: { org: models.Org; canManage: boolean }) {
  const queries = useQueryClient();
  const [name, setName] = useState(org.name);
  const { busy, error, submit } = useSubmit(async () => {
    await client.orgs.rename(org.id, name.trim());
    await queries.invalidateQueries({ queryKey: ["me"] });
    await queries.invalidateQueries({ queryKey: keys.orgs });
    toast.success("Renamed");
  });
  return (
    <form className="flex max-w-md flex-col gap-2" onSubmit={submit}>
      <Field label="Name">
        {(control) => (
          <div className="flex gap-2">
            <Input
              {...control}
              required
              maxLength={64}
              disabled={!canManage}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
            {canManage && (
              <Button type="submit" loading={busy} disabled={name.trim() === org.name}>
                Rename
              </Button>
            )}
          </div>
        )}
      </Field>
      <FormError error={error} />
    </form>
  );
}
