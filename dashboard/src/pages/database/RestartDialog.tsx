import { type DatabaseInfo, databaseName, restartDatabase } from "@/data/databases";
import { ConfirmDialog } from "@/ui";
import { useChange } from "./useChange";

/** Asks before the connections of a database end. */
export function RestartDialog(props: { database: DatabaseInfo; onClose: () => void }) {
  const { database, onClose } = props;
  const change = useChange();
  const name = databaseName(database);
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Restart ${name}?`}
      lead="What happens:"
      lost={[
        "All connections end, and running statements with them",
        "Data, address and credentials stay",
        database.update_available
          ? "It comes back with the newer version of its template"
          : "It comes back with the version that it has",
      ]}
      action="Restart"
      onConfirm={() => change(restartDatabase(database.id), `${name} starts again`)}
    />
  );
}
