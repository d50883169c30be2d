import type { models } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";
import { useMemo, useState } from "react";
import { client } from "@/data/client";
import { millis } from "@/data/format";
import { keys } from "@/data/queries";
import {
  Badge,
  Button,
  CodeBlock,
  type Column,
  CopyId,
  Dialog,
  EmptyState,
  IconButton,
  RelativeTime,
  StateBadge,
  Table,
  toast,
} from "@/ui";

/** Sends a delivery again. */
function useReplay(): (delivery: models.Delivery) => Promise<void> {
  const queries = useQueryClient();
  return async ({ id, type }) => {
    try {
      await client.webhooks.replay(id);
      toast.success(`${type} is delivered once more`);
    } catch (error) {
      toast.error(error);
    }
    await queries.invalidateQueries({ queryKey: keys.webhooks });
  };
}

/** A list of deliveries, with what was sent and answered. */
export function Deliveries({ deliveries }: { deliveries: readonly models.Delivery[] }) {
  const replay = useReplay();
  const [openId, setOpenId] = useState<string>();
  const columns = useMemo(() => columnsOf((one) => void replay(one)), [replay]);
  const open = deliveries.find(({ id }) => id === openId);
  return (
    <>
      <Table
        label="Deliveries"
        rows={deliveries}
        rowId={({ id }) => id}
        columns={columns}
        onOpen={({ id }) => setOpenId(id)}
        empty={<EmptyState title="Nothing was sent yet" />}
      />
      {open && (
        <DeliverySheet
          delivery={open}
          onClose={() => setOpenId(undefined)}
          onReplay={() => void replay(open)}
        />
      )}
    </>
  );
}

function columnsOf(onReplay: (delivery: models.Delivery) => void): Column<models.Delivery>[] {
  return [
    {
      id: "type",
      header: "Event",
      width: "minmax(130px, 1.4fr)",
      sort: (row) => row.type,
      cell: (row) => <code className="font-mono text-xs">{row.type}</code>,
    },
    {
      id: "status",
      header: "State",
      width: "minmax(96px, 0.8fr)",
      sort: (row) => row.status,
      cell: (row) => <StateBadge state={row.status} title={row.attempts.at(-1)?.error} />,
    },
    {
      id: "answer",
      header: "Answer",
      width: "minmax(84px, 0.6fr)",
      from: 480,
      cell: (row) => {
        const last = row.attempts.at(-1);
        if (last === undefined) return "–";
        return last.status === undefined ? <span title={last.error}>no answer</span> : last.status;
      },
    },
    {
      id: "took",
      header: "Took",
      width: "80px",
      align: "end",
      from: 620,
      cell: (row) => millis(row.attempts.at(-1)?.latency_ms),
    },
    {
      id: "tries",
      header: "Tries",
      width: "64px",
      align: "end",
      from: 560,
      sort: (row) => row.attempts.length,
      cell: (row) => row.attempts.length,
    },
    {
      id: "created",
      header: "When",
      width: "96px",
      align: "end",
      from: 400,
      sort: (row) => row.created_at,
      cell: (row) => <RelativeTime at={row.created_at} />,
    },
    {
      id: "replay",
      header: "Actions",
      headerHidden: true,
      width: "48px",
      align: "end",
      cell: (row) => (
        <IconButton
          size="sm"
          label="Deliver once more"
          icon={<RotateCw size={14} />}
          onClick={() => onReplay(row)}
        />
      ),
    },
  ];
}

function DeliverySheet(props: {
  delivery: models.Delivery;
  onClose: () => void;
  onReplay: () => void;
}) {
  const { delivery, onClose, onReplay } = props;
  return (
    <Dialog
      open
      place="side"
      onClose={onClose}
      title={delivery.type}
      description={
        <span className="flex flex-wrap items-center gap-3">
          <StateBadge state={delivery.status} />
          <RelativeTime at={delivery.created_at} />
          <CopyId id={delivery.id} />
        </span>
      }
      footer={
        <Button icon={<RotateCw size={14} />} onClick={onReplay}>
          Deliver once more
        </Button>
      }
    >
      <div className="flex flex-col gap-4">
        <section className="flex flex-col gap-2">
          <h3 className="text-sm font-semibold">Attempts</h3>
          {delivery.attempts.length === 0 && <p className="text-muted">None yet.</p>}
          <ol className="flex flex-col gap-2">
            {delivery.attempts.map((attempt) => (
              <li key={attempt.at} className="rounded-md border border-line p-3">
                <div className="flex flex-wrap items-center gap-2">
                  <Badge tone={isGood(attempt.status) ? "ok" : "danger"}>
                    {attempt.status ?? "no answer"}
                  </Badge>
                  <RelativeTime at={attempt.at} />
                  <span className="text-muted">{millis(attempt.latency_ms)}</span>
                </div>
                {attempt.error && <p className="mt-1 break-words text-danger">{attempt.error}</p>}
                {attempt.answer && <CodeBlock code={attempt.answer} className="mt-2" />}
              </li>
            ))}
          </ol>
          {delivery.next_attempt_at && (
            <p className="text-muted">
              Next try <RelativeTime at={delivery.next_attempt_at} />
            </p>
          )}
        </section>
        <section className="flex flex-col gap-2">
          <h3 className="text-sm font-semibold">What is sent</h3>
          <CodeBlock code={JSON.stringify(delivery.event, null, 2)} />
        </section>
      </div>
    </Dialog>
  );
}

function isGood(status: number | undefined): boolean {
  return status !== undefined && status >= 200 && status < 300;
}
