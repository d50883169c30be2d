import type { models } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Ellipsis, Plus, Trash2, Users } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { invitesQuery, keys, membersQuery } from "@/data/queries";
import { dropRows } from "@/data/rows";
import { type Rights, useMe, useRights } from "@/data/session";
import {
  Badge,
  Button,
  Card,
  type Column,
  ConfirmDialog,
  CopyText,
  EmptyState,
  ErrorNote,
  IconButton,
  Menu,
  MenuItem,
  MenuSeparator,
  PageBody,
  PageHeader,
  RelativeTime,
  SkeletonRows,
  Table,
  toast,
  useHotkey,
} from "@/ui";
import { InviteDialog } from "./InviteDialog";
import { OrgCard } from "./OrgCard";

/** The people of the organisation. */
export function Team() {
  const rights = useRights();
  if (rights.org === null) return <NoOrg />;
  return <OrgTeam org={rights.org} rights={rights} />;
}

function OrgTeam({ org, rights }: { org: models.Org; rights: Rights }) {
  const me = useMe();
  const { create: inviting = false } = useSearch({ from: "/app/team" });
  const go = useNavigate({ from: "/team" });
  const setInviting = (create: boolean): void =>
    void go({ search: create ? { create } : {}, replace: true });
  const [removing, setRemoving] = useState<models.OrgMember>();
  const [giving, setGiving] = useState<models.OrgMember>();
  const tried = useTried();
  useHotkey("c", () => setInviting(true), { enabled: rights.canManage });
  // biome-ignore lint/correctness/useExhaustiveDependencies: `tried` does the same on every render
  const columns = useMemo(
    () =>
      columnsOf(me.user_id, rights, {
        setRole: (member, role) =>
          void tried(
            () => client.orgs.setRole(org.id, member.user_id, role),
            `${member.email} is ${role} now`,
          ),
        remove: setRemoving,
        give: setGiving,
      }),
    [me.user_id, rights.role, org.id],
  );
  return (
    <>
      <PageHeader
        title="Team"
        aside={<Badge>{org.name}</Badge>}
        description="Everybody here uses the same sandboxes, keys and volumes."
        actions={
          rights.canManage && (
            <Button variant="primary" icon={<Plus size={14} />} onClick={() => setInviting(true)}>
              Invite
            </Button>
          )
        }
      />
      <PageBody>
        <Members org={org} columns={columns} />
        {rights.canManage && <Invites org={org} />}
        <OrgCard org={org} rights={rights} />
      </PageBody>
      {inviting && rights.canManage && (
        <InviteDialog org={org} onClose={() => setInviting(false)} />
      )}
      <Asking
        org={org}
        removing={removing}
        giving={giving}
        tried={tried}
        onClose={() => {
          setRemoving(undefined);
          setGiving(undefined);
        }}
      />
    </>
  );
}

function Members(props: { org: models.Org; columns: readonly Column<models.OrgMember>[] }) {
  const members = useQuery(membersQuery(props.org.id));
  return (
    <>
      {members.error && <ErrorNote error={members.error} onRetry={() => void members.refetch()} />}
      <Card title="Members" flush>
        {members.data ? (
          <Table
            label="Members"
            rows={members.data}
            rowId={({ user_id }) => user_id}
            columns={props.columns}
          />
        ) : (
          <SkeletonRows rows={3} />
        )}
      </Card>
    </>
  );
}

type Tried = (work: () => Promise<unknown>, done: string) => Promise<void>;

/** Does something to a member, says how it went, and reads the team again. */
function useTried(): Tried {
  const queries = useQueryClient();
  return async (work, done) => {
    try {
      await work();
      toast.success(done);
    } catch (error) {
      toast.error(error);
    }
    await queries.invalidateQueries({ queryKey: keys.orgs });
    await queries.invalidateQueries({ queryKey: ["me"] });
  };
}

/** Asks before a member goes, or becomes the owner. */
function Asking(props: {
  org: models.Org;
  removing: models.OrgMember | undefined;
  giving: models.OrgMember | undefined;
  tried: Tried;
  onClose: () => void;
}) {
  const { org, removing, giving, tried, onClose } = props;
  return (
    <>
      {removing && (
        <ConfirmDialog
          open
          onClose={onClose}
          title={`Remove ${removing.email}?`}
          lost={[
            `Their access to ${org.name}, at once: terminals and requests end`,
            "Keys that they made stay. Revoke those that they know",
          ]}
          action="Remove the member"
          onConfirm={() =>
            tried(
              () => client.orgs.removeMember(org.id, removing.user_id),
              `${removing.email} was removed`,
            )
          }
        />
      )}
      {giving && (
        <ConfirmDialog
          open
          onClose={onClose}
          title={`Make ${giving.email} the owner?`}
          lead="What happens:"
          lost={["You become an admin. Only the new owner can change roles, or give it back"]}
          action="Transfer the organisation"
          onConfirm={() =>
            tried(
              () => client.orgs.transfer(org.id, giving.user_id),
              `${giving.email} is the owner now`,
            )
          }
        />
      )}
    </>
  );
}

interface MemberActions {
  setRole: (member: models.OrgMember, role: string) => void;
  remove: (member: models.OrgMember) => void;
  give: (member: models.OrgMember) => void;
}

function columnsOf(me: string, rights: Rights, actions: MemberActions): Column<models.OrgMember>[] {
  return [
    {
      id: "email",
      header: "Person",
      width: "minmax(160px, 2fr)",
      sort: (row) => row.email,
      cell: (row) => (
        <span className="flex items-center gap-2">
          <span className="truncate">
            {row.name && <span className="font-medium">{row.name} </span>}
            <span className={row.name ? "text-muted" : undefined}>{row.email}</span>
          </span>
          {row.user_id === me && <Badge tone="accent">you</Badge>}
        </span>
      ),
    },
    {
      id: "role",
      header: "Role",
      width: "minmax(80px, 0.6fr)",
      sort: (row) => row.role,
      cell: (row) => <Badge tone={row.role === "owner" ? "info" : "neutral"}>{row.role}</Badge>,
    },
    {
      id: "joined",
      header: "Joined",
      width: "96px",
      align: "end",
      from: 420,
      sort: (row) => row.joined_at,
      cell: (row) => <RelativeTime at={row.joined_at} />,
    },
    {
      id: "id",
      header: "Id",
      width: "120px",
      align: "end",
      from: 720,
      cell: (row) => <CopyText text={row.user_id} label={row.user_id.slice(0, 10)} />,
    },
    {
      id: "actions",
      header: "Actions",
      headerHidden: true,
      width: "52px",
      align: "end",
      cell: (row) => (
        <MemberMenu member={row} isMe={row.user_id === me} rights={rights} actions={actions} />
      ),
    },
  ];
}

function MemberMenu(props: {
  member: models.OrgMember;
  isMe: boolean;
  rights: Rights;
  actions: MemberActions;
}) {
  const { member, isMe, rights, actions } = props;
  const mayRemove =
    rights.canManage &&
    !isMe &&
    member.role !== "owner" &&
    (rights.isOwner || member.role === "member");
  const mayChange = rights.isOwner && !isMe && member.role !== "owner";
  if (!mayRemove && !mayChange) return null;
  return (
    <Menu
      trigger={
        <IconButton size="sm" label={`Actions of ${member.email}`} icon={<Ellipsis size={16} />} />
      }
    >
      {mayChange && (
        <>
          <MenuItem
            onSelect={() => actions.setRole(member, member.role === "admin" ? "member" : "admin")}
          >
            Make {member.role === "admin" ? "a member" : "an admin"}
          </MenuItem>
          <MenuItem onSelect={() => actions.give(member)}>Make the owner…</MenuItem>
          <MenuSeparator />
        </>
      )}
      {mayRemove && (
        <MenuItem danger onSelect={() => actions.remove(member)}>
          Remove…
        </MenuItem>
      )}
    </Menu>
  );
}

function Invites({ org }: { org: models.Org }) {
  const queries = useQueryClient();
  const { data, error } = useQuery(invitesQuery(org.id));
  const columns = useMemo<Column<models.OrgInvite>[]>(
    () => [
      { id: "email", header: "Invited", width: "minmax(160px, 2fr)", cell: (row) => row.email },
      {
        id: "role",
        header: "Role",
        width: "minmax(80px, 0.6fr)",
        cell: (row) => <Badge>{row.role}</Badge>,
      },
      {
        id: "expires",
        header: "Expires",
        width: "96px",
        align: "end",
        from: 420,
        cell: (row) => <RelativeTime at={row.expires_at} />,
      },
      {
        id: "actions",
        header: "Actions",
        headerHidden: true,
        width: "52px",
        align: "end",
        cell: (row) => (
          <IconButton
            size="sm"
            label={`Withdraw the invite of ${row.email}`}
            icon={<Trash2 size={14} />}
            onClick={() =>
              void dropRows<models.OrgInvite>(queries, {
                queryKey: keys.invites(org.id),
                isGone: ({ id }) => id === row.id,
                work: () => client.orgs.revokeInvite(org.id, row.id),
                done: `The invite of ${row.email} no longer works`,
              })
            }
          />
        ),
      },
    ],
    [org.id, queries],
  );
  if (error) return <ErrorNote error={error} />;
  if (data === undefined || data.length === 0) return null;
  return (
    <Card title="Open invites" flush>
      <Table label="Open invites" rows={data} rowId={({ id }) => id} columns={columns} />
    </Card>
  );
}

function NoOrg() {
  return (
    <>
      <PageHeader title="Team" />
      <EmptyState
        icon={<Users size={32} strokeWidth={1.25} />}
        title="This workspace has no people"
      >
        <p>You act with an API key. Sign in with an account to see and invite members.</p>
      </EmptyState>
    </>
  );
}
