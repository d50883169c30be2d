/** Keys and options of every query. A page never names a key by itself. */

import type { models, SandboxInfo, SnapshotInfo, TemplateBuild } from "@pandastack/sdk";
import { queryOptions } from "@tanstack/react-query";
import { client, sandboxHandle } from "./client";
import { keys } from "./keys";
import { plainOnly } from "./kinds";

export type { SandboxInfo, SnapshotInfo, TemplateBuild };

export { keys };

// While the event stream is up, nothing needs to be read twice. See events.ts.
const LIVE_MS = 5 * 60_000;
const PAGE = 1000;
const PREPARING_MS = 5_000;

/** All sandboxes of every kind, newest first. Ten thousand come in ten pages, and the first one is shown at once. */
export const sandboxesQuery = queryOptions({
  queryKey: keys.sandboxes,
  queryFn: async ({ signal, client: queries }): Promise<SandboxInfo[]> => {
    const all: SandboxInfo[] = [];
    for (let after: string | undefined; ; after = all.at(-1)?.id) {
      const page = await client.sandboxes.list({ signal, limit: PAGE, after, kind: "all" });
      for (const { info } of page) all.push(info);
      if (page.length < PAGE) return all;
      queries.setQueryData<SandboxInfo[]>(keys.sandboxes, (old) => old ?? [...all]);
    }
  },
  // Comparing ten thousand rows with the old ones costs more than it saves.
  structuralSharing: false,
  staleTime: LIVE_MS,
});

/** The same without the machines of databases, which most pages do not show. */
export const plainSandboxesQuery = queryOptions({ ...sandboxesQuery, select: plainOnly });

/** One sandbox. Reading it does not wake it. */
export function sandboxQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandbox(id),
    queryFn: async ({ signal }): Promise<SandboxInfo> =>
      (await client.sandboxes.get(id, { signal })).info,
    staleTime: LIVE_MS,
  });
}

/** Ancestors, siblings and descendants of a sandbox. */
export function treeQuery(id: string) {
  return queryOptions({
    queryKey: keys.tree(id),
    queryFn: ({ signal }) => sandboxHandle(id).tree({ signal }),
    staleTime: LIVE_MS,
  });
}

/** The last events of the workspace, also of machines of databases, newest first. */
export const eventsQuery = queryOptions({
  queryKey: keys.events,
  queryFn: async ({ signal }) =>
    (await client.events.list({ signal, limit: 200, kind: "all" })).reverse(),
  staleTime: LIVE_MS,
});

export const snapshotsQuery = queryOptions({
  queryKey: keys.snapshots,
  queryFn: ({ signal }): Promise<SnapshotInfo[]> => client.snapshots.list({ signal }),
  staleTime: LIVE_MS,
});

export const templatesQuery = queryOptions({
  queryKey: keys.templates,
  queryFn: ({ signal }) => client.templates.list({ signal }),
  staleTime: LIVE_MS,
  // How far databases are prepared is no event of the stream.
  refetchInterval: ({ state: { data } }) =>
    data?.some(({ databases }) => databases !== undefined && databases.status !== "ready")
      ? PREPARING_MS
      : false,
});

export const buildsQuery = queryOptions({
  queryKey: keys.builds,
  queryFn: ({ signal }): Promise<TemplateBuild[]> => client.templates.builds({ signal }),
  staleTime: LIVE_MS,
});

export function buildQuery(id: string) {
  return queryOptions({
    queryKey: keys.build(id),
    queryFn: ({ signal }): Promise<TemplateBuild> => client.templates.buildStatus(id, { signal }),
    staleTime: LIVE_MS,
  });
}

export const volumesQuery = queryOptions({
  queryKey: keys.volumes,
  queryFn: async ({ signal }): Promise<models.Volume[]> =>
    (await client.volumes.list({ signal })).map(
      ({ name, size_mb, size_bytes, created_at, attached_to, sandbox_id }) => ({
        name,
        size_mb,
        size_bytes,
        created_at,
        attached_to,
        ...(sandbox_id === undefined ? {} : { sandbox_id }),
      }),
    ),
  staleTime: LIVE_MS,
});

export const webhooksQuery = queryOptions({
  queryKey: keys.webhooks,
  queryFn: ({ signal }) => client.webhooks.list({ signal }),
  staleTime: LIVE_MS,
});

/** Deliveries are not events of the stream, so they are read every few seconds while shown. */
export function deliveriesQuery(id: string) {
  return queryOptions({
    queryKey: keys.deliveries(id),
    queryFn: ({ signal }) => client.webhooks.deliveries(id, { signal, limit: 200 }),
    refetchInterval: 5_000,
  });
}

export const deadLettersQuery = queryOptions({
  queryKey: keys.deadLetters,
  queryFn: ({ signal }) => client.webhooks.deadLetters({ signal, limit: 200 }),
});

export interface AuditFilter {
  readonly since: string;
  readonly method?: string | undefined;
  readonly actor?: string | undefined;
}

export function auditQuery(filter: AuditFilter) {
  return queryOptions({
    queryKey: [...keys.audit, filter] as const,
    queryFn: ({ signal }) => client.audit.list({ ...filter, limit: 1000, signal }),
    staleTime: 10_000,
  });
}

export function bootStatsQuery(limit: number) {
  return queryOptions({
    queryKey: [...keys.bootStats, limit] as const,
    queryFn: ({ signal }) => client.server.bootStats({ limit, signal }),
    staleTime: LIVE_MS,
  });
}

export type SeriesRange = "15m" | "1h" | "6h" | "24h" | "7d";

/** The widest step that still shows about a hundred points. */
const STEP_OF: Record<SeriesRange, "15s" | "1m" | "5m" | "1h"> = {
  "15m": "15s",
  "1h": "15s",
  "6h": "1m",
  "24h": "5m",
  "7d": "1h",
};

export function seriesQuery(range: SeriesRange) {
  return queryOptions({
    queryKey: [...keys.series, range] as const,
    queryFn: ({ signal }) => client.metrics.overview({ range, step: STEP_OF[range], signal }),
    refetchInterval: 15_000,
  });
}

export const apiKeysQuery = queryOptions({
  queryKey: keys.apiKeys,
  queryFn: ({ signal }) => client.apiKeys.list({ signal }),
  staleTime: 30_000,
});

export const orgsQuery = queryOptions({
  queryKey: keys.orgs,
  queryFn: ({ signal }) => client.orgs.list({ signal }),
  staleTime: 30_000,
});

export function membersQuery(org: string) {
  return queryOptions({
    queryKey: keys.members(org),
    queryFn: ({ signal }) => client.orgs.members(org, { signal }),
    staleTime: 30_000,
  });
}

export function invitesQuery(org: string) {
  return queryOptions({
    queryKey: keys.invites(org),
    queryFn: ({ signal }) => client.orgs.invites(org, { signal }),
    staleTime: 30_000,
  });
}

export type UsageBy = "day" | "template" | "sandbox" | "member";

export function usageQuery(by: UsageBy, from?: string, to?: string) {
  return queryOptions({
    queryKey: [...keys.usage, by, from, to] as const,
    queryFn: ({ signal }) => client.usage.report({ by, from, to, signal }),
    staleTime: 60_000,
  });
}

export const billQuery = queryOptions({
  queryKey: keys.bill,
  queryFn: ({ signal }) => client.billing.get({ signal }),
  staleTime: 60_000,
});

export const pricingQuery = queryOptions({
  queryKey: keys.pricing,
  queryFn: ({ signal }) => client.billing.pricing({ signal }),
  staleTime: LIVE_MS,
});

export const quotasQuery = queryOptions({
  queryKey: keys.quotas,
  queryFn: ({ signal }) => client.usage.quotas({ signal }),
  staleTime: 15_000,
});

export const sessionsQuery = queryOptions({
  queryKey: keys.sessions,
  queryFn: ({ signal }) => client.auth.sessions({ signal }),
  staleTime: 15_000,
});

export const healthQuery = queryOptions({
  queryKey: keys.health,
  queryFn: ({ signal }) => client.server.health({ signal, timeoutMs: 5_000 }),
  refetchInterval: (query) => (query.state.status === "error" ? 3_000 : 30_000),
  retry: false,
});

export const versionQuery = queryOptions({
  queryKey: keys.version,
  queryFn: ({ signal }) => client.server.version({ signal }),
  staleTime: Number.POSITIVE_INFINITY,
});
