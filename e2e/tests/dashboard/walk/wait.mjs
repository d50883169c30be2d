// Waiting for conditions. Nothing here sleeps for a fixed time.

const STEP_MS = 50;

/** How long one act of a machine may take under emulation on a busy computer. */
export const PATIENCE_MS = 120_000;

/** Waits until `look` answers with something, and returns it. */
export async function until(what, look, patienceMs = PATIENCE_MS) {
  const end = Date.now() + patienceMs;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`it never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
}

/** Fails with both values if they differ. */
export function same(what, seen, expected) {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: ${left} instead of ${right}`);
}

/** Fails unless the condition holds. */
export function holds(what, condition) {
  if (!condition) throw new Error(`this does not hold: ${what}`);
}
