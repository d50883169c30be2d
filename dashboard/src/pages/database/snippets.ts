/** How to connect to a database. Pure. */

import type { DatabaseInfo } from "@/data/databases";

/** Whether secrets are readable. */
export type Secrets = "shown" | "hidden";

export type ConnectSnippet = "psql" | "Python" | "TypeScript" | "HTTP";

const MASK = "••••••••";

/** A secret as it is shown. The mask does not tell its length. */
export function shownSecret(secret: string, secrets: Secrets): string {
  return secrets === "shown" ? secret : MASK;
}

/** The connection URL as it is shown. */
export function shownUrl(url: string, secrets: Secrets): string {
  if (secrets === "shown") return url;
  return url.replace(/^([a-z]+:\/\/[^:/@]*:)[^@]*@/, `$1${MASK}@`);
}

/** Commands and programs that connect. Undefined while the database has no credentials. */
export function connectSnippets(
  database: DatabaseInfo,
  secrets: Secrets,
): Record<ConnectSnippet, string> | undefined {
  const { id, connection_url, broker_url, broker_token, database: name } = database;
  if (!connection_url || !broker_url || !broker_token) return undefined;
  const url = `${shownUrl(connection_url, secrets)}?sslmode=require`;
  return {
    psql: `psql "${url}"\n\n# or, without the password in the history of the shell:\npandastack db psql ${id}`,
    Python: `# pip install "psycopg[binary]"
import psycopg

with psycopg.connect("${url}") as connection:
    print(connection.execute("select version()").fetchone())`,
    TypeScript: `// npm install postgres
import postgres from "postgres";

const sql = postgres("${url}");
console.log(await sql\`select version()\`);`,
    HTTP: `curl ${broker_url}/v1/query \\
  -H "Authorization: Bearer ${shownSecret(broker_token, secrets)}" \\
  --json '{"database": "${name ?? "pandastack"}", "sql": "select now()"}'`,
  };
}
