import type { models } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "@/data/client";
import { keys } from "@/data/queries";
import { Button, CodeBlock, Dialog, ErrorNote, Field, Input, Note, Select } from "@/ui";
import { useSubmit } from "../signin/useSubmit";

/** Invites a person. The link is shown once. */
export function InviteDialog({ org, onClose }: { org: models.Org; onClose: () => void }) {
  const queries = useQueryClient();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState("member");
  const [made, setMade] = useState<models.OrgInvite>();
  const { busy, error, submit } = useSubmit(async () => {
    setMade(await client.orgs.invite(org.id, email.trim(), { role }));
    await queries.invalidateQueries({ queryKey: keys.invites(org.id) });
  });
  if (made) return <MadeInvite invite={made} onClose={onClose} />;
  return (
    <Dialog open sticky size="sm" onClose={onClose} title={`Invite somebody to ${org.name}`}>
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="E-mail">
          {(control) => (
            <Input
              {...control}
              required
              type="email"
              autoComplete="off"
              value={email}
              onChange={(event) => setEmail(event.target.value)}
            />
          )}
        </Field>
        <Field
          label="Role"
          hint={
            role === "admin"
              ? "Uses everything, and invites and removes members"
              : "Uses everything in the workspace, also its keys"
          }
        >
          {(control) => (
            <Select {...control} value={role} onChange={(event) => setRole(event.target.value)}>
              <option value="member">member</option>
              <option value="admin">admin</option>
            </Select>
          )}
        </Field>
        {error !== undefined && <ErrorNote error={error} title="The invite was not made" />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy}>
            Invite
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function MadeInvite({ invite, onClose }: { invite: models.OrgInvite; onClose: () => void }) {
  return (
    <Dialog
      open
      sticky
      onClose={onClose}
      title={`Invite for ${invite.email}`}
      footer={
        <Button variant="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <div className="flex flex-col gap-3">
        <Note>
          Send this link to {invite.email}. It is shown only now. If the server has mail, it was
          sent too.
        </Note>
        <div data-secret="invite">
          <CodeBlock code={invite.invite_url ?? invite.token ?? ""} />
        </div>
      </div>
    </Dialog>
  );
}
