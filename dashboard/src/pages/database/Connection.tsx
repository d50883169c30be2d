import { Check, Copy, Eye, EyeOff } from "lucide-react";
import { useState } from "react";
import type { DatabaseInfo } from "@/data/databases";
import { Button, Card, CodeBlock, IconButton, Note, Tabs, useCopied } from "@/ui";
import {
  type ConnectSnippet,
  connectSnippets,
  type Secrets,
  shownSecret,
  shownUrl,
} from "./snippets";

/** Addresses and secrets. The secrets are hidden until somebody asks. */
export function Connection({ database }: { database: DatabaseInfo }) {
  const [secrets, setSecrets] = useState<Secrets>("hidden");
  const { connection_url: url = "", broker_url = "", broker_token = "" } = database;
  const isHidden = secrets === "hidden";
  if (url === "") {
    return (
      <Card title="Connection">
        <Note>
          {database.status === "failed"
            ? "It has no credentials, because it failed."
            : "The server is being started. Its address and password come in a moment."}
        </Note>
      </Card>
    );
  }
  return (
    <Card
      title="Connection"
      description="A sleeping database wakes up for the first connection"
      actions={
        <Button
          size="sm"
          aria-pressed={!isHidden}
          icon={isHidden ? <Eye size={14} /> : <EyeOff size={14} />}
          onClick={() => setSecrets(isHidden ? "shown" : "hidden")}
        >
          {isHidden ? "Show the secrets" : "Hide the secrets"}
        </Button>
      }
    >
      <dl className="mb-4 grid gap-x-3 gap-y-1 sm:grid-cols-[8rem_minmax(0,1fr)] sm:items-center">
        <Row name="Connection URL" shown={shownUrl(url, secrets)} value={url} />
        <Row name="Host" value={database.host ?? ""} />
        <Row name="Port" value={String(database.port ?? "")} />
        <Row name="Database" value={database.database ?? ""} />
        <Row name="User" value={database.username ?? ""} />
        <Row
          name="Password"
          shown={shownSecret(database.password ?? "", secrets)}
          value={database.password ?? ""}
        />
        <Row name="Broker URL" value={broker_url} />
        <Row name="Broker token" shown={shownSecret(broker_token, secrets)} value={broker_token} />
      </dl>
      <HowTo database={database} secrets={secrets} />
    </Card>
  );
}

function Row(props: { name: string; value: string; shown?: string }) {
  const { name, value, shown = value } = props;
  const [copied, copy] = useCopied();
  if (value === "") return null;
  return (
    <>
      <dt className="text-xs text-muted sm:text-sm">{name}</dt>
      <dd className="flex min-w-0 items-center gap-1">
        <code className="min-w-0 flex-1 font-mono text-xs break-all">{shown}</code>
        <IconButton
          size="sm"
          label={copied ? "Copied" : `Copy the ${name.charAt(0).toLowerCase()}${name.slice(1)}`}
          icon={copied ? <Check size={14} className="text-ok" /> : <Copy size={14} />}
          onClick={() => copy(value)}
        />
      </dd>
    </>
  );
}

function HowTo({ database, secrets }: { database: DatabaseInfo; secrets: Secrets }) {
  const [language, setLanguage] = useState<ConnectSnippet>("psql");
  const shown = connectSnippets(database, secrets);
  const real = connectSnippets(database, "shown");
  if (shown === undefined || real === undefined) return null;
  return (
    <Tabs
      label="How to connect"
      value={language}
      onChange={setLanguage}
      contentClassName="pt-2"
      items={(Object.keys(shown) as ConnectSnippet[]).map((name) => ({
        value: name,
        label: name === "HTTP" ? "HTTP broker" : name,
        content: <CodeBlock code={shown[name]} copyAs={real[name]} />,
      }))}
    />
  );
}
