import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Archive, backupsQuery } from "@/data/databaseBackups";
import { Note, RelativeTime } from "@/ui";
import { archiveLook } from "./archive";

/** The state of an archive with what it means. */
export function ArchiveNote({ archive }: { archive: Archive }) {
  const { tone, title, text } = archiveLook(archive);
  return (
    <div role={tone === "danger" ? "alert" : undefined} data-archive={archive.health}>
      <Note tone={tone}>
        <strong className="font-medium">{title}.</strong> {text}{" "}
        {archive.health !== "off" && (
          <span className="text-muted">
            Last archived: <RelativeTime at={archive.last_archived_at} />.
          </span>
        )}
      </Note>
    </div>
  );
}

/** On every part of a database: its archive is late or broken. Silent while all is well. */
export function ArchiveWarning({ id }: { id: string }) {
  const { data } = useQuery(backupsQuery(id));
  if (data === undefined) return null;
  const { tone, title, text } = archiveLook(data.archive);
  if (tone !== "warn" && tone !== "danger") return null;
  return (
    <div role="alert" className="mx-4 mb-2 md:mx-6">
      <Note tone={tone}>
        <strong className="font-medium">{title}.</strong> {text}{" "}
        <Link to="/databases/$id/$tab" params={{ id, tab: "backups" }} className="underline">
          See its backups
        </Link>
      </Note>
    </div>
  );
}
