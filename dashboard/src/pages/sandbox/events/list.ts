/** Events as a list shows them. Pure. */

export interface SeenEvent {
  readonly kind: string;
  readonly ts: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

const KEPT_MAX = 300;

/** Puts a new event first. */
export function withEvent(list: readonly SeenEvent[], event: SeenEvent): readonly SeenEvent[] {
  const { kind, ts, payload } = event;
  return [{ kind, ts, payload }, ...list].slice(0, KEPT_MAX);
}

/** The colour of an event. */
export function eventTone(kind: string): "danger" | "warn" | "ok" | "sleep" | "neutral" {
  if (/failed|died|orphaned/.test(kind)) return "danger";
  if (/denied|paused|oom/.test(kind)) return "warn";
  if (/hibernat/.test(kind)) return "sleep";
  if (/created|running|woken|wake|resumed|forked|promoted/.test(kind)) return "ok";
  return "neutral";
}

/** The payload in one line. */
export function shortPayload(payload: Readonly<Record<string, unknown>>): string {
  return Object.entries(payload)
    .map(
      ([key, value]) =>
        `${key}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`,
    )
    .join(" ");
}

/** Destinations that were refused, newest first, each once. */
export function deniedTargets(
  events: readonly SeenEvent[],
): { target: string; ts: string; times: number }[] {
  const found = new Map<string, { target: string; ts: string; times: number }>();
  for (const { kind, ts, payload } of events) {
    if (kind !== "egress.denied") continue;
    const named = payload["target"] ?? payload["host"] ?? payload["destination"];
    if (typeof named !== "string" || named === "") continue;
    const known = found.get(named);
    if (known === undefined) found.set(named, { target: named, ts, times: 1 });
    else known.times += 1;
  }
  return [...found.values()];
}
