/** What people call a database. Pure. */

import type { models } from "@pandastack/sdk";
import { shortId } from "./format";

/** Its label, else the start of its id. */
export function databaseName({ id, label }: models.ManagedDatabase): string {
  return label || shortId(id);
}

/** When it was created, as the other records say it. */
export function createdAt({ created_at: seconds }: models.ManagedDatabase): string | undefined {
  return seconds === undefined ? undefined : new Date(seconds * 1000).toISOString();
}
