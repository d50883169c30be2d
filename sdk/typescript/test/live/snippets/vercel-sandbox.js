import { PandaStack } from "@pandastack/sdk";

const client = new PandaStack({
  apiKey: process.env.PANDASTACK_API_KEY, // pds_...; baseUrl is configurable
});

// Create a sandbox from a template (179ms p50 via snapshot-restore, no warm pool)
const sandbox = await client.sandboxes.create({
  template: "code-interpreter",
  ttlSeconds: 600,
  metadata: { task: "data-analysis" },
});

// Run untrusted, agent-generated code inside the microVM
const result = await sandbox.exec("python -c 'print(2 ** 10)'", {
  timeoutSeconds: 30,
});
console.log(result.stdout); // -> 1024

// Read and write files
await sandbox.filesystem.write("/tmp/notes.txt", "hello from inside the VM");
console.log(await sandbox.filesystem.read("/tmp/notes.txt"));

// Fork into N parallel branches from the same warmed state (~400ms same-host)
const branch = await sandbox.fork();
