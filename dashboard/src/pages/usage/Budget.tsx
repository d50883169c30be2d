import type { models } from "@pandastack/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "@/data/client";
import { usd } from "@/data/format";
import { keys } from "@/data/queries";
import { useRights } from "@/data/session";
import { Button, Card, Field, Input, Meter, Switch, toast } from "@/ui";
import { FormError } from "../signin/FormError";
import { useSubmit } from "../signin/useSubmit";

/** The limit that the workspace sets for itself. */
export function Budget({ bill }: { bill: models.Bill }) {
  const { org, canManage } = useRights();
  const { budget } = bill;
  return (
    <Card title="Budget" description="What may be charged in a month, above the credit">
      <div className="flex flex-col gap-4">
        {budget ? (
          <Meter
            label={`Alert at ${budget.alert_percent} %${budget.hard_cap ? ", then nothing new starts" : ""}`}
            used={bill.mtd_charged_usd}
            limit={budget.monthly_usd}
            text={`${usd(bill.mtd_charged_usd)} of ${usd(budget.monthly_usd)}`}
          />
        ) : (
          <p className="text-muted">There is none: everything that is used is charged.</p>
        )}
        {org !== null && canManage && (
          <BudgetForm key={JSON.stringify(budget)} org={org.id} budget={budget} />
        )}
        {org !== null && !canManage && <p className="text-muted">Admins and owners set it.</p>}
      </div>
    </Card>
  );
}

function BudgetForm({ org, budget }: { org: string; budget: models.WorkspaceBudget | null }) {
  const queries = useQueryClient();
  const [monthly, setMonthly] = useState(budget ? String(budget.monthly_usd) : "");
  const [alert, setAlert] = useState(String(budget?.alert_percent ?? 80));
  const [hardCap, setHardCap] = useState(budget?.hard_cap ?? false);
  const changed = (): Promise<void> => queries.invalidateQueries({ queryKey: keys.bill });
  const { busy, error, submit } = useSubmit(async () => {
    await client.orgs.setBudget(org, {
      monthly_usd: Number(monthly),
      alert_percent: Number(alert),
      hard_cap: hardCap,
    });
    await changed();
    toast.success("Budget saved");
  });
  const removal = useSubmit(async () => {
    await client.orgs.removeBudget(org);
    await changed();
    toast.success("Budget removed");
  });
  return (
    <form className="flex flex-col gap-3" onSubmit={submit}>
      <div className="grid grid-cols-2 gap-3">
        <NumberField label="Dollars a month" min="0" value={monthly} onChange={setMonthly} />
        <NumberField label="Alert at percent" min="1" max="100" value={alert} onChange={setAlert} />
      </div>
      <div className="flex items-center gap-3">
        <Switch label="Stop at the budget" checked={hardCap} onChange={setHardCap} />
        <span>
          Stop at the budget
          <span className="block text-xs text-muted">
            Sandboxes are put to sleep, and nothing new starts
          </span>
        </span>
      </div>
      <FormError error={error ?? removal.error} />
      <div className="flex gap-2">
        <Button type="submit" variant="primary" loading={busy} disabled={monthly === ""}>
          Save
        </Button>
        {budget && (
          <Button loading={removal.busy} onClick={() => removal.submit()}>
            Remove
          </Button>
        )}
      </div>
    </form>
  );
}

function NumberField(props: {
  label: string;
  min: string;
  max?: string;
  value: string;
  onChange: (value: string) => void;
}) {
  const { label, min, max, value, onChange } = props;
  return (
    <Field label={label}>
      {(control) => (
        <Input
          {...control}
          required
          type="number"
          min={min}
          max={max}
          step={max === undefined ? "any" : "1"}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
