/** Backups of managed databases: what is kept, clones as of a time, and restore drills. */

import { type models, operations } from "@pandastack/sdk";
import { queryOptions } from "@tanstack/react-query";
import { client } from "./client";
import type { DatabaseInfo } from "./databases";
import { keys } from "./keys";

export type Backups = models.DatabaseBackups;
export type Archive = models.DatabaseArchive;
export type Drill = models.BackupDrill;

const SETTLED_MS = 15_000;
const DRILL_MS = 2_000;
const CLONE_MAX_MS = 180_000;
/** A large database is read as a whole. */
const BACKUP_MAX_MS = 60 * 60_000;

/** What a database could be restored from. Reading it does not wake the database. */
export function backupsQuery(id: string) {
  return queryOptions({
    queryKey: keys.databasePart(id, "backups"),
    queryFn: ({ signal }): Promise<Backups> =>
      client.transport.json(operations.getDatabasesIdBackups(id), { signal }),
    refetchInterval: ({ state: { data } }) =>
      data?.drill?.status === "running" ? DRILL_MS : SETTLED_MS,
    retry: false,
  });
}

/** Takes a base backup. The answer comes when it is stored. */
export function takeBackup(id: string): Promise<models.DatabaseBackup> {
  const options = { timeoutMs: BACKUP_MAX_MS };
  return client.transport.json(operations.postDatabasesIdBackups(id), options);
}

/** Starts a restore drill. Its result is part of the backups. */
export function verifyBackup(id: string, wanted: models.VerifyBackup): Promise<Drill> {
  return client.transport.json(operations.postDatabasesIdVerifyBackup(id, wanted));
}

/** Makes a new database from the archive of another one. The source is not touched. */
export function cloneDatabase(id: string, wanted: models.CloneDatabase): Promise<DatabaseInfo> {
  const options = { timeoutMs: CLONE_MAX_MS };
  return client.transport.json(operations.postDatabasesIdClone(id, wanted), options);
}
