/** What a sandbox takes and costs, as text. Pure. */

import type { models, SandboxInfo } from "@pandastack/sdk";
import { megabytes, usd } from "@/data/format";

const HOUR_SECONDS = 3600;
const MIB_PER_GIB = 1024;

/** The prices of the workspace's plan, else those of new workspaces. */
export function ratesOf(
  pricing: models.Pricing | undefined,
  plan: string | undefined,
): models.UsageRates | undefined {
  return pricing?.tiers.find(({ name }) => name === plan)?.rates ?? pricing?.rates;
}

/** Its size, and what CPU and memory of an hour in this state cost. Disks cost by the month. */
export function costText(info: SandboxInfo, rates: models.UsageRates | undefined): string {
  const size = `${info.cpu} × ${megabytes(info.memory_mb)}`;
  if (info.status === "hibernated" || info.status === "failed") return `${size} · disk only`;
  if (rates === undefined) return size;
  const cpu = info.status === "paused" ? 0 : (info.cpu ?? 0) * rates.vcpu_usd_per_second;
  const memory = ((info.memory_mb ?? 0) / MIB_PER_GIB) * rates.memory_usd_per_gib_second;
  return `${size} · ${usd((cpu + memory) * HOUR_SECONDS)}/h`;
}
