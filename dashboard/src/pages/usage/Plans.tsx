import type { models } from "@pandastack/sdk";
import { useState } from "react";
import { client } from "@/data/client";
import { count, megabytes, usd } from "@/data/format";
import { Badge, Button, Card, RelativeTime, toast } from "@/ui";

const PAID = new Set(["pro", "team"]);

/** The plan, the prices, and how to change it. */
export function Plans(props: {
  pricing: models.Pricing;
  bill: models.Bill;
  org: models.Org | null;
}) {
  const { pricing, bill, org } = props;
  const [busy, setBusy] = useState<string>();
  const canPay = bill.billing_enabled && org?.role === "owner";
  const go = async (name: string, page: () => Promise<models.BillingPage>): Promise<void> => {
    setBusy(name);
    try {
      window.location.assign((await page()).url);
    } catch (error) {
      toast.error(error);
      setBusy(undefined);
    }
  };
  return (
    <Card
      title="Plan"
      description={
        bill.billing_enabled
          ? "Paid with Stripe"
          : "Nobody pays on this server: prices only tell what usage would cost"
      }
      actions={
        canPay && bill.subscription ? (
          <Button
            size="sm"
            loading={busy === "portal"}
            onClick={() => org && void go("portal", () => client.orgs.billingPortal(org.id))}
          >
            Manage the subscription
          </Button>
        ) : undefined
      }
    >
      {bill.subscription && (
        <p className="mb-3 text-muted">
          Subscription {bill.subscription.status}
          {bill.subscription.period_end && (
            <>
              , paid until <RelativeTime at={bill.subscription.period_end} />
            </>
          )}
        </p>
      )}
      <ul className="flex flex-col">
        {pricing.tiers.map((tier) => (
          <Tier
            key={tier.name}
            tier={tier}
            isMine={tier.name === bill.plan}
            busy={busy === tier.name}
            {...(canPay && org && PAID.has(tier.name) && tier.name !== bill.plan
              ? { onBuy: () => void go(tier.name, () => client.orgs.checkout(org.id, tier.name)) }
              : {})}
          />
        ))}
      </ul>
    </Card>
  );
}

function Tier(props: {
  tier: models.PricingTier;
  isMine: boolean;
  busy: boolean;
  onBuy?: () => void;
}) {
  const { tier, isMine, busy, onBuy } = props;
  return (
    <li className="flex items-center gap-3 border-t border-line py-2 first:border-t-0">
      <div className="min-w-0 flex-1">
        <div className="flex items-center gap-2 font-medium">
          {tier.name}
          {isMine && <Badge tone="accent">yours</Badge>}
        </div>
        <div className="text-xs text-muted">{factsOf(tier)}</div>
      </div>
      <span className="whitespace-nowrap tabular-nums">{usd(tier.monthly_usd)} a month</span>
      {onBuy && (
        <Button size="sm" loading={busy} onClick={onBuy}>
          Buy
        </Button>
      )}
    </li>
  );
}

function factsOf(tier: models.PricingTier): string {
  return [
    tier.max_sandboxes === null
      ? "any number of sandboxes"
      : `${count(tier.max_sandboxes)} sandboxes`,
    tier.max_memory_mb_total === null ? undefined : megabytes(tier.max_memory_mb_total),
    tier.credit_usd > 0 ? `${usd(tier.credit_usd)} credit` : undefined,
    tier.overage ? "more is charged" : "stops when the credit is used",
  ]
    .filter(Boolean)
    .join(", ");
}
