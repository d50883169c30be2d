/**
 * Vercel AI SDK: a tool that runs the model's Python in a sandbox.
 *
 * With a model:     OPENAI_API_KEY=... npx tsx agent.ts
 * With a recording: python3 ../_model/play.py vercel_ai -- npx tsx agent.ts
 */

import { openai } from "@ai-sdk/openai";
import { PandaStack, type Sandbox } from "@pandastack/sdk";
import { generateText, stepCountIs, tool } from "ai";
import { z } from "zod";

/** A set of tools over one sandbox. Its interpreter keeps variables between the calls. */
async function codeTools(sandbox: Sandbox) {
  const python = await sandbox.createCodeContext("python");
  return {
    runPython: tool({
      description: "Run Python. Variables stay for the next call. Print what you need.",
      inputSchema: z.object({ code: z.string() }),
      execute: async ({ code }, { abortSignal }) => {
        const options = { timeoutSeconds: 60, signal: abortSignal };
        const { stdout, error = null } = await python.runCode(code, options);
        console.log(`${code.trim().replace(/^/gm, ">>> ")}\n${stdout}`);
        return { stdout, error };
      },
    }),
    readFile: tool({
      description: "Read a text file of the sandbox.",
      inputSchema: z.object({ path: z.string() }),
      execute: ({ path }) => sandbox.filesystem.read(path),
    }),
  };
}

const client = new PandaStack();
await using sandbox = await client.sandboxes.create({
  template: "code-interpreter",
  egressAllowlist: [], // Code of a model needs no internet.
});
await sandbox.filesystem.write("/data/visits.json", JSON.stringify({ mon: 120, tue: 80, wed: 310 }));

const { text, steps } = await generateText({
  model: openai("gpt-4.1"),
  tools: await codeTools(sandbox),
  stopWhen: stepCountIs(10),
  prompt: "Which day of /data/visits.json had the most visits, and what was its share?",
});
console.log(`${text} (${steps.length} steps)`);
