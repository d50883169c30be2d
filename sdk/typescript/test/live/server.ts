/** The server of the live tests. */

import { PandaStack, type Sandbox, type SandboxCreateOptions } from "../../src/index.js";

/** A small template; machines may be emulated. */
export const TEMPLATE = process.env["PANDASTACK_TEST_TEMPLATE"] ?? "mini";

export const client = new PandaStack({ timeoutMs: 60_000 });

export function create(options: SandboxCreateOptions = {}): Promise<Sandbox> {
  return client.sandboxes.create({ template: TEMPLATE, ttlSeconds: 600, ...options });
}

/** Asks again until the condition holds. */
export async function eventually(holds: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not seen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
