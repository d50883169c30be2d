/** A new sandbox as a command and as code. Pure. */

export interface NewSandbox {
  readonly template?: string;
  readonly fromSnapshot?: string;
  readonly name?: string;
  readonly ttlSeconds?: number;
  readonly persistent?: boolean;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly egressAllowlist?: readonly string[];
  readonly volumes?: readonly string[];
}

/** The body of the request. */
export function requestOf(wanted: NewSandbox): Record<string, unknown> {
  const metadata = { ...(wanted.name ? { name: wanted.name } : {}), ...wanted.metadata };
  return {
    ...(wanted.fromSnapshot
      ? { from_snapshot: wanted.fromSnapshot }
      : { template: wanted.template ?? "base" }),
    ...(wanted.ttlSeconds === undefined ? {} : { ttl_seconds: wanted.ttlSeconds }),
    ...(wanted.persistent === undefined ? {} : { persistent: wanted.persistent }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
    ...(Object.keys(wanted.env ?? {}).length === 0 ? {} : { env: wanted.env }),
    ...(wanted.egressAllowlist === undefined ? {} : { egress_allowlist: wanted.egressAllowlist }),
    ...(wanted.volumes === undefined || wanted.volumes.length === 0
      ? {}
      : { volumes: wanted.volumes.map((name) => ({ name })) }),
  };
}

/** The request in every language. */
export function createSnippets(wanted: NewSandbox, server: string): Record<string, string> {
  const body = requestOf(wanted);
  return {
    CLI: commandOf(wanted),
    Python: `from pandastack import Sandbox\n\nsandbox = Sandbox(${pythonArguments(body)})\nprint(sandbox.exec("uname -a").stdout)`,
    TypeScript: `import { Sandbox } from "@pandastack/sdk";\n\nconst sandbox = await Sandbox.create(${JSON.stringify(camel(body), null, 2)});\nconsole.log((await sandbox.exec("uname -a")).stdout);`,
    curl: `curl ${server}/v1/sandboxes \\\n  -H "Authorization: Bearer $PANDASTACK_API_KEY" \\\n  --json ${shell(JSON.stringify(body))}`,
  };
}

/** The command of the same sandbox. */
export function commandOf(wanted: NewSandbox): string {
  const pairs = (flag: string, values: Readonly<Record<string, string>> = {}): string[] =>
    Object.entries(values).map(([key, value]) => `${flag} ${shell(`${key}=${value}`)}`);
  const egress = wanted.egressAllowlist;
  return [
    "pandastack sandbox create",
    wanted.fromSnapshot
      ? `--from-snapshot ${wanted.fromSnapshot}`
      : `-t ${wanted.template ?? "base"}`,
    ...(wanted.name ? [`--name ${shell(wanted.name)}`] : []),
    ...(wanted.ttlSeconds === undefined ? [] : [`--ttl ${wanted.ttlSeconds}`]),
    ...(wanted.persistent ? ["--persistent"] : []),
    ...pairs("--metadata", wanted.metadata),
    ...pairs("--env", wanted.env),
    ...(egress?.length === 0
      ? ["--no-egress"]
      : (egress ?? []).map((host) => `--egress ${shell(host)}`)),
    ...(wanted.volumes ?? []).map((name) => `--volume ${name}`),
  ].join(" ");
}

/** Quotes a word for a shell, if it needs that. */
export function shell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function pythonArguments(body: Record<string, unknown>): string {
  return Object.entries(body)
    .map(([key, value]) => `${key}=${python(value)}`)
    .join(", ");
}

function python(value: unknown): string {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    const items = Object.entries(value as object).map(
      ([key, one]) => `${JSON.stringify(key)}: ${python(one)}`,
    );
    return `{${items.join(", ")}}`;
  }
  return JSON.stringify(value);
}

function camel(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body).map(([key, value]) => [
      key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );
}
