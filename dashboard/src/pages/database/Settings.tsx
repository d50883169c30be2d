import type { models } from "@pandastack/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { KeyRound, RotateCw, Trash2 } from "lucide-react";
import { type ReactNode, useState } from "react";
import {
  changeDatabase,
  type DatabaseInfo,
  databaseName,
  databasesQuery,
  deleteDatabase,
  putDatabase,
  resetCredentials,
} from "@/data/databases";
import { keys } from "@/data/queries";
import { dropRows } from "@/data/rows";
import { Button, Card, ConfirmDialog, Switch, toast } from "@/ui";
import { deleteLosses } from "../databases/losses";

type Asked = "reset" | "delete" | undefined;

/** Sleep, restart, credentials, and the end. */
export default function SettingsPart(props: { database: DatabaseInfo; onRestart: () => void }) {
  const { database, onRestart } = props;
  const [asked, setAsked] = useState<Asked>();
  const isRunning = database.status === "running";
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      <Setting
        title="Always on"
        text="Without it the database sleeps when nobody is connected. The next connection wakes it."
      >
        <AlwaysOn database={database} />
      </Setting>
      <Setting
        title="Restart"
        text={
          database.update_available
            ? "A newer version of its template is there. A restart brings it; data and credentials stay."
            : "The server starts again. Data and credentials stay, connections end."
        }
      >
        <Button
          icon={<RotateCw size={14} />}
          disabled={!isRunning && database.status !== "failed"}
          onClick={onRestart}
        >
          {database.update_available ? "Restart to update" : "Restart"}
        </Button>
      </Setting>
      <Setting
        title="Credentials"
        text={
          isRunning
            ? "A new password and a new broker token. The old ones stop working at once."
            : "Only a running database can get new credentials. Wake it first."
        }
      >
        <Button
          icon={<KeyRound size={14} />}
          disabled={!isRunning}
          onClick={() => setAsked("reset")}
        >
          Reset credentials
        </Button>
      </Setting>
      <Setting
        title="Delete"
        text="The server with all its data and backups. Its branches and clones stay."
      >
        <Button variant="danger" icon={<Trash2 size={14} />} onClick={() => setAsked("delete")}>
          Delete the database
        </Button>
      </Setting>
      {asked === "reset" && <ResetDialog database={database} onClose={() => setAsked(undefined)} />}
      {asked === "delete" && (
        <DeleteDialog database={database} onClose={() => setAsked(undefined)} />
      )}
    </div>
  );
}

function Setting(props: { title: string; text: string; children: ReactNode }) {
  return (
    <Card>
      <div className="flex flex-wrap items-center gap-3">
        <div className="min-w-0 flex-1 basis-52">
          <h2 className="font-semibold">{props.title}</h2>
          <p className="text-muted">{props.text}</p>
        </div>
        {props.children}
      </div>
    </Card>
  );
}

function AlwaysOn({ database }: { database: DatabaseInfo }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const change = async (alwaysOn: boolean): Promise<void> => {
    setBusy(true);
    try {
      putDatabase(queries, { ...database, always_on: alwaysOn });
      putDatabase(queries, await changeDatabase(database.id, { always_on: alwaysOn }));
    } catch (error) {
      putDatabase(queries, database);
      toast.error(error);
    }
    setBusy(false);
  };
  return (
    <Switch
      label="Always on"
      checked={database.always_on ?? false}
      disabled={busy || !database.connection_url}
      onChange={(alwaysOn) => void change(alwaysOn)}
    />
  );
}

function ResetDialog({ database, onClose }: { database: DatabaseInfo; onClose: () => void }) {
  const queries = useQueryClient();
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Reset the credentials of ${databaseName(database)}?`}
      lead="What happens:"
      lost={[
        "The old password and the old broker token stop working at once",
        "Programs that use them need the new ones, which the overview shows",
      ]}
      action="Reset credentials"
      onConfirm={async () => {
        putDatabase(queries, await resetCredentials(database.id));
        toast.success("The credentials are new. See the overview");
      }}
    />
  );
}

function DeleteDialog({ database, onClose }: { database: DatabaseInfo; onClose: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { data: all = [] } = useQuery(databasesQuery);
  const statsKey = keys.databasePart(database.id, "stats");
  const stats = queries.getQueryData<models.DatabaseStats>(statsKey);
  const name = databaseName(database);
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete the database ${name}?`}
      lost={deleteLosses(database, all, stats?.db_size_bytes)}
      typeToConfirm={name}
      action="Delete the database"
      onConfirm={async () => {
        // Away first: a deleted database cannot be read again.
        await navigate({ to: "/databases" });
        void dropRows<DatabaseInfo>(queries, {
          queryKey: keys.databases,
          isGone: ({ id }) => id === database.id,
          work: () => deleteDatabase(database.id),
          done: `Database ${name} deleted`,
        });
      }}
    />
  );
}
