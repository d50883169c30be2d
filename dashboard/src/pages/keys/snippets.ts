/** How to use a key in every client, with the real address. Pure. */

/** Snippets for a key. Without a key they show where it belongs. */
export function keySnippets(server: string, key = "pds_…"): Record<string, string> {
  return {
    CLI: `echo ${key} | pandastack context add ${contextName(server)} ${server} --key-stdin --use\npandastack whoami`,
    Python: `# pip install pandastack
from pandastack import PandaStack

client = PandaStack(token="${key}", base_url="${server}")
sandbox = client.sandboxes.create(template="base")
print(sandbox.exec("uname -a").stdout)`,
    TypeScript: `// npm install @pandastack/sdk
import { PandaStack } from "@pandastack/sdk";

const client = new PandaStack({ apiKey: "${key}", baseUrl: "${server}" });
const sandbox = await client.sandboxes.create({ template: "base" });
console.log((await sandbox.exec("uname -a")).stdout);`,
    curl: `curl ${server}/v1/sandboxes \\
  -H "Authorization: Bearer ${key}" \\
  --json '{"template": "base"}'`,
    MCP: JSON.stringify(
      {
        mcpServers: {
          pandastack: { url: `${server}/mcp`, headers: { Authorization: `Bearer ${key}` } },
        },
      },
      null,
      2,
    ),
  };
}

/** A short name of the server for the command line. */
function contextName(server: string): string {
  const host = new URL(server).hostname;
  return /^[\d.]+$|^localhost$|:/.test(host) ? "local" : (host.split(".")[0] ?? "local");
}
