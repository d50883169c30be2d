import type { models } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { KeyRound, Plus, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import { client, SERVER_URL } from "@/data/client";
import { apiKeysQuery, keys } from "@/data/queries";
import {
  Badge,
  Button,
  Card,
  CodeBlock,
  type Column,
  CopyText,
  Dialog,
  EmptyState,
  ErrorNote,
  Field,
  IconButton,
  Input,
  Note,
  PageBody,
  PageHeader,
  RelativeTime,
  Select,
  SkeletonRows,
  Snippets,
  Table,
  useHotkey,
} from "@/ui";
import { useSubmit } from "../signin/useSubmit";
import { type Deletion, useDelete } from "../useDelete";
import { keySnippets } from "./snippets";

/** Keys for programs. */
export function Keys() {
  const { data, error, refetch } = useQuery(apiKeysQuery);
  const { create: creating = false } = useSearch({ from: "/app/keys" });
  const go = useNavigate({ from: "/keys" });
  const setCreating = (create: boolean): void =>
    void go({ search: create ? { create } : {}, replace: true });
  const [made, setMade] = useState<models.ApiKey>();
  const [askRevoke, revokeDialog] = useDelete(revocation);
  const columns = useMemo(() => columnsOf(askRevoke), [askRevoke]);
  useHotkey("c", () => setCreating(true));
  return (
    <>
      <PageHeader
        title="API keys"
        description="For programs and the command line. A key may do everything in this workspace."
        actions={
          <Button variant="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>
            Create
          </Button>
        }
      />
      <PageBody>
        {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
        {data === undefined && !error && <SkeletonRows rows={3} />}
        {data !== undefined && (
          <Card flush>
            <Table
              label="API keys"
              rows={data}
              rowId={({ id }) => id}
              columns={columns}
              empty={<EmptyState icon={<KeyRound size={28} />} title="No keys yet" />}
            />
          </Card>
        )}
        <Card title="Use a key" description={`The address of this server is ${SERVER_URL}`}>
          <Snippets label="Use a key" snippets={keySnippets(SERVER_URL)} />
        </Card>
      </PageBody>
      {creating && (
        <CreateKey
          onClose={() => setCreating(false)}
          onDone={(key) => {
            setCreating(false);
            setMade(key);
          }}
        />
      )}
      {made?.token !== undefined && (
        <NewKey token={made.token} label={made.label ?? ""} onClose={() => setMade(undefined)} />
      )}
      {revokeDialog}
    </>
  );
}

function revocation(key: models.ApiKey): Deletion<models.ApiKey> {
  const name = key.label ?? key.prefix;
  return {
    title: `Revoke ${name}?`,
    lost: [
      "Every program with this key is refused at once, also in the middle of a request",
      "Terminals and streams that it opened end. Sandboxes and processes stay",
    ],
    action: "Revoke the key",
    queryKey: keys.apiKeys,
    isGone: ({ id }) => id === key.id,
    work: () => client.apiKeys.revoke(key.id),
    done: `Key ${name} revoked`,
  };
}

function columnsOf(onRevoke: (key: models.ApiKey) => void): Column<models.ApiKey>[] {
  return [
    {
      id: "label",
      header: "For",
      width: "minmax(110px, 1.4fr)",
      sort: (row) => row.label,
      cell: (row) => (
        <span className="flex items-center gap-2">
          <span className="truncate">
            {row.label ?? <span className="text-faint">no label</span>}
          </span>
          {row.current && <Badge tone="accent">this one</Badge>}
        </span>
      ),
    },
    {
      id: "prefix",
      header: "Key",
      width: "minmax(110px, 1fr)",
      cell: (row) => <CopyText text={row.prefix} label={`${row.prefix}…`} />,
    },
    {
      id: "created",
      header: "Created",
      width: "96px",
      align: "end",
      from: 520,
      sort: (row) => row.created_at,
      cell: (row) => <RelativeTime at={row.created_at} />,
    },
    {
      id: "used",
      header: "Last used",
      width: "104px",
      align: "end",
      from: 420,
      sort: (row) => row.last_used_at,
      cell: (row) => <RelativeTime at={row.last_used_at} />,
    },
    {
      id: "expires",
      header: "Expires",
      width: "96px",
      align: "end",
      from: 620,
      sort: (row) => row.expires_at,
      cell: (row) => <RelativeTime at={row.expires_at} />,
    },
    {
      id: "actions",
      header: "Actions",
      headerHidden: true,
      width: "48px",
      align: "end",
      cell: (row) => (
        <IconButton
          size="sm"
          label={`Revoke ${row.label ?? row.prefix}`}
          icon={<Trash2 size={14} />}
          onClick={() => onRevoke(row)}
        />
      ),
    },
  ];
}

function CreateKey(props: { onClose: () => void; onDone: (key: models.ApiKey) => void }) {
  const queries = useQueryClient();
  const [label, setLabel] = useState("");
  const [days, setDays] = useState("90");
  const { busy, error, submit } = useSubmit(async () => {
    const key = await client.apiKeys.create({
      label: label.trim(),
      ...(days === "" ? {} : { expiresInDays: Number(days) }),
    });
    void queries.invalidateQueries({ queryKey: keys.apiKeys });
    props.onDone(key);
  });
  return (
    <Dialog open sticky size="sm" onClose={props.onClose} title="Create an API key">
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="What it is for" hint="Such as ci, or the name of a machine">
          {(control) => (
            <Input
              {...control}
              required
              maxLength={64}
              autoComplete="off"
              value={label}
              onChange={(event) => setLabel(event.target.value)}
            />
          )}
        </Field>
        <Field label="Expires">
          {(control) => (
            <Select {...control} value={days} onChange={(event) => setDays(event.target.value)}>
              <option value="7">in 7 days</option>
              <option value="30">in 30 days</option>
              <option value="90">in 90 days</option>
              <option value="365">in a year</option>
              <option value="">never</option>
            </Select>
          )}
        </Field>
        {error !== undefined && <ErrorNote error={error} title="The key was not created" />}
        <div className="flex justify-end gap-2">
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" variant="primary" loading={busy} disabled={label.trim() === ""}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function NewKey(props: { token: string; label: string; onClose: () => void }) {
  return (
    <Dialog
      open
      sticky
      onClose={props.onClose}
      title={`The key ${props.label}`}
      footer={
        <Button variant="primary" onClick={props.onClose}>
          I have saved it
        </Button>
      }
    >
      <div className="flex flex-col gap-3">
        <Note tone="warn">
          The key is shown only now. Nobody can read it later, also not the operator.
        </Note>
        <div data-secret="api-key">
          <CodeBlock code={props.token} />
        </div>
        <Snippets label="Use the key" snippets={keySnippets(SERVER_URL, props.token)} />
      </div>
    </Dialog>
  );
}
