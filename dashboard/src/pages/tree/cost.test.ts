import type { SandboxInfo } from "@pandastack/sdk";
import { expect, test } from "vitest";
import { costText, ratesOf } from "./cost";

const RATES = {
  vcpu_usd_per_second: 0.00001,
  memory_usd_per_gib_second: 0.000005,
  volume_usd_per_gib_month: 0.1,
};

function sandbox(status: string): SandboxInfo {
  return { id: "a", template: "mini", cpu: 2, memory_mb: 512, status, metadata: {} };
}

test("a node tells its size and what an hour of its state costs", () => {
  expect(costText(sandbox("running"), RATES)).toBe("2 × 512 MiB · $0.081/h");
  expect(costText(sandbox("paused"), RATES)).toBe("2 × 512 MiB · $0.00900/h");
  expect(costText(sandbox("hibernated"), RATES)).toBe("2 × 512 MiB · disk only");
  expect(costText(sandbox("running"), undefined)).toBe("2 × 512 MiB");
});

test("the prices are those of the plan", () => {
  const team = { ...RATES, vcpu_usd_per_second: 7 };
  const pricing = { rates: RATES, tiers: [{ name: "team", rates: team }] } as never;
  expect(ratesOf(pricing, "team")).toBe(team);
  expect(ratesOf(pricing, "gone")).toBe(RATES);
  expect(ratesOf(undefined, "team")).toBeUndefined();
});
