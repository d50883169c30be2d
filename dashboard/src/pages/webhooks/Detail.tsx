import type { models } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { KeyRound, Pencil, Send, Trash2 } from "lucide-react";
import { useState } from "react";
import { client } from "@/data/client";
import { millis } from "@/data/format";
import { deliveriesQuery, keys, webhooksQuery } from "@/data/queries";
import { dropRows } from "@/data/rows";
import {
  Badge,
  Button,
  Card,
  ConfirmDialog,
  CopyId,
  EmptyState,
  ErrorNote,
  IconButton,
  Loading,
  Note,
  PageBody,
  PageHeader,
  RelativeTime,
  SkeletonRows,
  Switch,
  toast,
} from "@/ui";
import { WebhookState } from ".";
import { Deliveries } from "./Deliveries";
import { SecretDialog } from "./SecretDialog";
import { WebhookForm } from "./WebhookForm";

/** One webhook with its deliveries. */
export function WebhookPage() {
  const { id } = useParams({ from: "/app/webhooks/$id" });
  const { data, error, refetch } = useQuery(webhooksQuery);
  const webhook = data?.find((one) => one.id === id);
  if (error) return <ErrorNote error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (webhook === undefined) {
    return (
      <EmptyState
        title="There is no such webhook"
        actions={<Link to="/webhooks">All webhooks</Link>}
      >
        <p>It was deleted, or belongs to another organisation.</p>
      </EmptyState>
    );
  }
  return <Known webhook={webhook} />;
}

type Open = "edit" | "delete" | "rotate" | undefined;

function Known({ webhook }: { webhook: models.Webhook }) {
  const deliveries = useQuery(deliveriesQuery(webhook.id));
  const [open, setOpen] = useState<Open>();
  return (
    <>
      <PageHeader
        title={webhook.url}
        documentTitle="Webhook"
        aside={<WebhookState webhook={webhook} />}
        description={webhook.description}
        actions={<Actions webhook={webhook} onOpen={setOpen} />}
      />
      <PageBody>
        <Facts webhook={webhook} />
        <Card
          title="Deliveries"
          description="Newest first. A click shows what was sent and answered"
          flush
        >
          {deliveries.error && (
            <ErrorNote error={deliveries.error} onRetry={() => void deliveries.refetch()} />
          )}
          {deliveries.data ? <Deliveries deliveries={deliveries.data} /> : <SkeletonRows />}
        </Card>
      </PageBody>
      <Asking webhook={webhook} open={open} onClose={() => setOpen(undefined)} />
    </>
  );
}

/** Does something, says if it failed, and reads the webhooks again. */
function useTried(): (work: () => Promise<unknown>) => Promise<void> {
  const queries = useQueryClient();
  return async (work) => {
    try {
      await work();
    } catch (error) {
      toast.error(error);
    }
    await queries.invalidateQueries({ queryKey: keys.webhooks });
  };
}

function Actions(props: { webhook: models.Webhook; onOpen: (open: Open) => void }) {
  const { webhook, onOpen } = props;
  const [pinging, setPinging] = useState(false);
  const tried = useTried();
  const ping = async (): Promise<void> => {
    setPinging(true);
    try {
      report(await client.webhooks.ping(webhook.id));
    } catch (error) {
      toast.error(error);
    }
    setPinging(false);
  };
  return (
    <>
      <Switch
        label={webhook.enabled ? "Switch it off" : "Switch it on"}
        checked={webhook.enabled}
        onChange={(enabled) => void tried(() => client.webhooks.update(webhook.id, { enabled }))}
      />
      <Button icon={<Send size={14} />} loading={pinging} onClick={() => void ping()}>
        Send a test
      </Button>
      <IconButton label="Change" icon={<Pencil size={16} />} onClick={() => onOpen("edit")} />
      <IconButton
        label="Make a new secret"
        icon={<KeyRound size={16} />}
        onClick={() => onOpen("rotate")}
      />
      <IconButton label="Delete" icon={<Trash2 size={16} />} onClick={() => onOpen("delete")} />
    </>
  );
}

function Facts({ webhook }: { webhook: models.Webhook }) {
  return (
    <>
      {webhook.disabled_reason && (
        <Note tone="warn">The server switched it off: {webhook.disabled_reason}</Note>
      )}
      {webhook.failing_since && (
        <Note tone="warn">
          No delivery has arrived since <RelativeTime at={webhook.failing_since} />.
        </Note>
      )}
      <div className="flex flex-wrap items-center gap-2 text-muted">
        {webhook.events.map((kind) => (
          <Badge key={kind}>{kind}</Badge>
        ))}
        <span>
          created <RelativeTime at={webhook.created_at} />
        </span>
        <CopyId id={webhook.id} />
        {webhook.dropped > 0 && <Badge tone="warn">{webhook.dropped} dropped</Badge>}
      </div>
    </>
  );
}

/** The dialogs: change it, make a new secret, delete it. */
function Asking(props: { webhook: models.Webhook; open: Open; onClose: () => void }) {
  const { webhook, open, onClose } = props;
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [secret, setSecret] = useState<string>();
  const tried = useTried();
  return (
    <>
      {open === "edit" && <WebhookForm webhook={webhook} onClose={onClose} onDone={onClose} />}
      <ConfirmDialog
        open={open === "rotate"}
        onClose={onClose}
        title="Make a new secret?"
        lead="What happens:"
        lost={[
          "The old secret stops signing after a day. Until then deliveries are signed with both",
        ]}
        action="Make a new secret"
        onConfirm={() =>
          tried(async () => setSecret((await client.webhooks.rotateSecret(webhook.id)).secret))
        }
      />
      <ConfirmDialog
        open={open === "delete"}
        onClose={onClose}
        title="Delete this webhook?"
        lost={[`Deliveries to ${webhook.url}, also those that wait`, "Their history"]}
        action="Delete the webhook"
        onConfirm={async () => {
          // Away first: the deliveries of a deleted webhook cannot be read again.
          await navigate({ to: "/webhooks" });
          void dropRows<models.Webhook>(queries, {
            queryKey: keys.webhooks,
            isGone: ({ id }) => id === webhook.id,
            work: () => client.webhooks.delete(webhook.id),
            done: "The webhook is deleted",
          });
        }}
      />
      {secret !== undefined && (
        <SecretDialog secret={secret} onClose={() => setSecret(undefined)} />
      )}
    </>
  );
}

function report(ping: models.Ping): void {
  if (ping.delivered)
    toast.success(`The receiver answered ${ping.status} in ${millis(ping.latency_ms)}`);
  else
    toast.error(
      new Error(ping.error ?? `The receiver answered ${ping.status}`),
      "The test did not arrive",
    );
}
