/** What the state of an archive means to its owner. Pure. */

import type { Archive } from "@/data/databaseBackups";
import { bytes, plural, sentence } from "@/data/format";

export interface ArchiveLook {
  readonly tone: "ok" | "warn" | "danger" | "info";
  readonly title: string;
  readonly text: string;
}

export function archiveLook(archive: Archive): ArchiveLook {
  const { health, pending_segments: segments, pending_bytes: size, error } = archive;
  const waiting =
    segments === 0
      ? ""
      : `${plural(segments, "piece")} of the log (${bytes(size)}) ${segments === 1 ? "waits" : "wait"} on this host.`;
  const cause = sentence(error ?? "");
  switch (health) {
    case "ok":
      return { tone: "ok", title: "The archive is up to date", text: waiting };
    case "behind":
      return {
        tone: "warn",
        title: "The archive is behind",
        text: words(waiting, cause, "The latest changes cannot be restored yet."),
      };
    case "failing":
      return {
        tone: "danger",
        title: "The archive does not work",
        text: words(cause, waiting, "Until it works again, new changes exist only on this host."),
      };
    case "off":
      return {
        tone: "info",
        title: "Nothing is archived",
        text: words(cause, "There is no backup of new changes."),
      };
    default:
      return { tone: "info", title: `The archive is ${health}`, text: words(cause, waiting) };
  }
}

function words(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(" ");
}
