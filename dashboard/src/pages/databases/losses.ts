/** What is lost with a database. Pure. */

import type { DatabaseInfo } from "@/data/databases";
import { bytes, plural } from "@/data/format";

/** One line each. The size of its data is known while it runs. */
export function deleteLosses(
  database: DatabaseInfo,
  all: readonly DatabaseInfo[],
  dataBytes?: number,
): string[] {
  const size = dataBytes === undefined ? "" : `, ${bytes(dataBytes)}`;
  const branches = all.filter(({ branched_from }) => branched_from === database.id).length;
  const clones = all.filter(({ cloned_from }) => cloned_from === database.id).length;
  return [
    `All tables and rows in it${size}, and its backups`,
    "Its address, password and broker token. Programs that use them fail at once",
    ...(branches === 0
      ? []
      : [`Not its ${plural(branches, "branch", "branches")}: branches go on without it`]),
    ...(clones === 0 ? [] : [`Not its ${plural(clones, "clone")}: clones go on without it`]),
  ];
}
