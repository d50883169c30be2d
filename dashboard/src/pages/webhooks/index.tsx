import type { models } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, Webhook as WebhookIcon } from "lucide-react";
import { useState } from "react";
import { plural } from "@/data/format";
import { deadLettersQuery, webhooksQuery } from "@/data/queries";
import {
  Badge,
  Button,
  Card,
  type Column,
  EmptyState,
  ErrorNote,
  PageBody,
  PageHeader,
  RelativeTime,
  SkeletonRows,
  Snippets,
  Table,
  useHotkey,
} from "@/ui";
import { Deliveries } from "./Deliveries";
import { SecretDialog } from "./SecretDialog";
import { WebhookForm } from "./WebhookForm";

const COLUMNS: readonly Column<models.Webhook>[] = [
  {
    id: "url",
    header: "Address",
    width: "minmax(160px, 2fr)",
    sort: (row) => row.url,
    cell: (row) => (
      <Link
        to="/webhooks/$id"
        params={{ id: row.id }}
        className="font-mono text-xs hover:underline"
        title={row.url}
      >
        {row.url}
      </Link>
    ),
  },
  {
    id: "state",
    header: "State",
    width: "minmax(84px, 0.7fr)",
    cell: (row) => <WebhookState webhook={row} />,
  },
  {
    id: "events",
    header: "Events",
    width: "minmax(120px, 1fr)",
    from: 560,
    cell: (row) => (
      <span className="flex gap-1 overflow-hidden">
        {row.events.map((one) => (
          <Badge key={one}>{one}</Badge>
        ))}
      </span>
    ),
  },
  {
    id: "description",
    header: "For",
    width: "minmax(100px, 1fr)",
    from: 820,
    cell: (row) => row.description,
  },
  {
    id: "created",
    header: "Created",
    width: "96px",
    align: "end",
    from: 460,
    sort: (row) => row.created_at,
    cell: (row) => <RelativeTime at={row.created_at} />,
  },
];

/** Whether events are sent, and whether they arrive. */
export function WebhookState({ webhook }: { webhook: models.Webhook }) {
  if (!webhook.enabled)
    return <Badge tone={webhook.disabled_reason ? "danger" : "neutral"}>off</Badge>;
  if (webhook.failing_since) return <Badge tone="warn">failing</Badge>;
  return <Badge tone="ok">on</Badge>;
}

/** Addresses that get the events of the workspace. */
export function Webhooks() {
  const navigate = useNavigate();
  const { data, error, refetch } = useQuery(webhooksQuery);
  const dead = useQuery(deadLettersQuery);
  const { create: creating = false } = useSearch({ from: "/app/webhooks" });
  const go = useNavigate({ from: "/webhooks" });
  const setCreating = (create: boolean): void =>
    void go({ search: create ? { create } : {}, replace: true });
  const [made, setMade] = useState<models.Webhook>();
  useHotkey("c", () => setCreating(true));
  return (
    <>
      <PageHeader
        title="Webhooks"
        description="The server sends what happens to an address of yours, signed, and tries again until it arrives."
        actions={
          <Button variant="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>
            Create
          </Button>
        }
      />
      <PageBody>
        {error && <ErrorNote error={error} onRetry={() => void refetch()} />}
        {data === undefined && !error && <SkeletonRows />}
        {data?.length === 0 && <NoWebhooks />}
        {data !== undefined && data.length > 0 && (
          <Card flush>
            <Table
              label="Webhooks"
              rows={data}
              rowId={({ id }) => id}
              columns={COLUMNS}
              onOpen={({ id }) => void navigate({ to: "/webhooks/$id", params: { id } })}
            />
          </Card>
        )}
        {dead.data !== undefined && dead.data.length > 0 && (
          <Card
            title="Given up"
            description={`${plural(dead.data.length, "delivery", "deliveries")} of all webhooks. Replay them when the receiver works again`}
            flush
          >
            <Deliveries deliveries={dead.data} />
          </Card>
        )}
      </PageBody>
      {creating && (
        <WebhookForm
          onClose={() => setCreating(false)}
          onDone={(webhook) => {
            setCreating(false);
            setMade(webhook);
          }}
        />
      )}
      {made?.secret !== undefined && (
        <SecretDialog
          secret={made.secret}
          onClose={() => {
            setMade(undefined);
            void navigate({ to: "/webhooks/$id", params: { id: made.id } });
          }}
        />
      )}
    </>
  );
}

function NoWebhooks() {
  return (
    <EmptyState icon={<WebhookIcon size={32} strokeWidth={1.25} />} title="No webhooks yet">
      <p>Get a request when a sandbox starts, sleeps, fails or is deleted:</p>
      <Snippets
        label="Create a webhook"
        snippets={{
          CLI: "pandastack webhook create https://example.com/hook -e 'sandbox.*'",
          Python: 'client.webhooks.create(url="https://example.com/hook", events=["sandbox.*"])',
          TypeScript:
            'await client.webhooks.create({ url: "https://example.com/hook", events: ["sandbox.*"] });',
        }}
      />
    </EmptyState>
  );
}
