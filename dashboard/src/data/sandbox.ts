/** Queries about the inside of one sandbox. They need a machine that runs: reading may wake it. */

import type { FileInfo, models, ProcessInfo } from "@pandastack/sdk";
import { queryOptions } from "@tanstack/react-query";
import { client, sandboxHandle } from "./client";
import { keys } from "./keys";
import type { SeriesRange } from "./queries";

/** The entries of a directory: folders first, then by name. */
export function directoryQuery(id: string, path: string) {
  return queryOptions({
    queryKey: [...keys.sandboxPart(id, "files"), path] as const,
    queryFn: async ({ signal }): Promise<FileInfo[]> => {
      const entries = await sandboxHandle(id).filesystem.list(path, { signal });
      return entries.sort(
        (a, b) => Number(b.is_dir) - Number(a.is_dir) || a.name.localeCompare(b.name),
      );
    },
    staleTime: 60_000,
    retry: false,
  });
}

/** Processes are not events of the stream, so they are read every few seconds while shown. */
export function processesQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandboxPart(id, "processes"),
    queryFn: async ({ signal }): Promise<ProcessInfo[]> =>
      (await sandboxHandle(id).processes.list({ signal })).map(({ info }) => info).reverse(),
    refetchInterval: 3_000,
  });
}

export function portsQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandboxPart(id, "ports"),
    queryFn: ({ signal }): Promise<models.Port[]> => sandboxHandle(id).ports.list({ signal }),
    refetchInterval: 5_000,
  });
}

/** The code kernels of a sandbox. Read again when the page has another one. */
export function kernelsQuery(id: string, current: string | undefined) {
  return queryOptions({
    queryKey: [...keys.sandboxPart(id, "kernels"), current ?? ""] as const,
    queryFn: ({ signal }) => sandboxHandle(id).codeContexts({ signal }),
    retry: false,
  });
}

/** What the machine uses now. Does not wake it. */
export function machineQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandboxPart(id, "machine"),
    queryFn: ({ signal }) => sandboxHandle(id).metrics({ signal }),
    refetchInterval: 5_000,
    retry: false,
  });
}

export function sandboxSeriesQuery(id: string, range: SeriesRange) {
  const step = ({ "15m": "15s", "1h": "15s", "6h": "1m", "24h": "5m", "7d": "1h" } as const)[range];
  return queryOptions({
    queryKey: [...keys.sandboxPart(id, "series"), range] as const,
    queryFn: ({ signal }) => client.metrics.sandbox(id, { range, step, signal }),
    refetchInterval: 15_000,
  });
}

export function lifecycleQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandboxPart(id, "lifecycle"),
    queryFn: ({ signal }) => sandboxHandle(id).lifecycle({ signal }),
    refetchInterval: 15_000,
  });
}

export function egressQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandboxPart(id, "egress"),
    queryFn: ({ signal }) => sandboxHandle(id).egress({ signal }),
    staleTime: 15_000,
  });
}

/** The last events of a sandbox, oldest first. Further ones come from the page's stream. */
export function sandboxEventsQuery(id: string) {
  return queryOptions({
    queryKey: keys.sandboxEvents(id),
    queryFn: ({ signal }) => sandboxHandle(id).events({ tail: 200, signal }),
    staleTime: 5 * 60_000,
  });
}

/** What differs between two sandboxes. Looks into both machines, so only when somebody asks. */
export function diffQuery(id: string, other: string) {
  return queryOptions({
    queryKey: [...keys.sandboxPart(id, "diff"), other] as const,
    queryFn: ({ signal }) => sandboxHandle(id).diff(other, { signal }),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });
}
