/** Decides whether a refused request is sent again, and when. */

import type { PandaStackError } from "./errors.js";
import { CapacityError, RateLimitError } from "./errors.js";

// Random extra time of each further try, so that many clients do not return at once.
const JITTER_SECONDS = [1, 2, 4, 8, 15] as const;
const FULL_HOST_WAIT_SECONDS = 0.5;

/** What is known about a request that was refused. */
export interface Refusal {
  readonly error: PandaStackError;
  /** A create, a fork or a fork tree: the server promises that nothing was created. */
  readonly creates: boolean;
  /** A request that changes nothing. */
  readonly reads: boolean;
  /** Number of tries so far, from 1. */
  readonly tries: number;
  readonly elapsedSeconds: number;
  readonly budgetSeconds: number;
}

/**
 * Seconds to wait before the next try, or undefined if there is none.
 *
 * Only refusals that promise "nothing happened" are repeated: 429 with `Retry-After`, and for
 * creates and reads 503 with `Retry-After` and 507. A quota is a 429 without `Retry-After`.
 */
export function retryWait(
  refusal: Refusal,
  random: () => number = Math.random,
): number | undefined {
  const wait = basicWait(refusal);
  const left = refusal.budgetSeconds - refusal.elapsedSeconds;
  if (wait === undefined || wait > left) return undefined;
  const jitter = JITTER_SECONDS[Math.min(refusal.tries, JITTER_SECONDS.length) - 1] ?? 15;
  return Math.min(left, wait + random() * jitter);
}

function basicWait({ error, creates, reads }: Refusal): number | undefined {
  if (error instanceof RateLimitError) return error.retryAfter;
  if (!(error instanceof CapacityError) || !(creates || reads)) return undefined;
  if (error.statusCode === 507) {
    return creates ? Math.max(error.retryAfter ?? 0, FULL_HOST_WAIT_SECONDS) : undefined;
  }
  return hasErrorText(error.body) ? error.retryAfter : undefined;
}

/** A proxy in front of the server also answers 503; only the server itself sends this text. */
function hasErrorText(body: unknown): boolean {
  return (
    typeof body === "object" &&
    body !== null &&
    typeof (body as { error?: unknown }).error === "string"
  );
}
