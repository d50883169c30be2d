import assert from "node:assert/strict";
import { test } from "node:test";
import { type BranchOutcome, ExploreError, Sandbox } from "../../src/index.js";
import { failureOf, json, StandIn, sandboxInfo } from "../stand-in.js";

/** A server whose commands exit with the number in their text. */
async function world(children = 3): Promise<{ server: StandIn; sandbox: Sandbox }> {
  const server = await StandIn.start((seen, response) => {
    const body = seen.body.length > 0 ? (JSON.parse(String(seen.body)) as { cmd?: string }) : {};
    if (seen.path.endsWith("/fork-tree")) {
      const ids = ["a", "b", "c", "d"].slice(0, children);
      return json(response, 201, { tree_id: "t1", children: ids.map(sandboxInfo), errors: [] });
    }
    if (seen.path.endsWith("/promote")) {
      return json(response, 200, { winner: "b", deleted: ["a"], failures: {} });
    }
    if (seen.method === "DELETE") {
      response.writeHead(204).end();
      return undefined;
    }
    if (body.cmd?.startsWith("find")) return json(response, 200, result("/root/new\n", 0));
    if (body.cmd === "late") return json(response, 504, { error: "exec timeout after 1s" });
    return json(
      response,
      200,
      result(body.cmd ?? "", Number(/exit (\d)/.exec(body.cmd ?? "")?.[1])),
    );
  });
  return { server, sandbox: Sandbox.fromInfo(sandboxInfo("parent") as never, server.client()) };
}

function result(stdout: string, code: number): object {
  return { stdout, stderr: "", exit_code: code || 0 };
}

test("the best branch wins, is promoted, and the rest is deleted", async () => {
  const { server, sandbox } = await world();
  await using _ = server;
  const seen: string[] = [];
  const outcome = await sandbox.explore(
    ["exit 1", { label: "second", cmd: "exit 0 x" }, { label: "third", fn: async () => 7 }],
    {
      scoreFn: (_, { label }) => (label === "second" ? 5 : 1),
      onOutcome: ({ label }) => seen.push(label),
    },
  );
  assert.equal(outcome.winner?.id, "b");
  assert.equal(outcome.winnerOutcome?.stdoutTail, "exit 0 x");
  assert.deepEqual(outcome.winnerOutcome?.filesChanged, ["/root/new"]);
  assert.deepEqual([outcome.reaped, outcome.treeId], [["a", "c"], "t1"]);
  assert.equal(outcome.outcomes[0]?.label, "second");
  assert.equal(outcome.outcomes.find(({ label }) => label === "third")?.value, 7);
  assert.equal(seen.length, 3);
  assert.ok(server.calls.includes("DELETE /v1/sandboxes/c"));
});

test("a choice of one's own, the smallest score, and a time limit", async () => {
  const { server, sandbox } = await world(2);
  await using _ = server;
  const least = await sandbox.explore(
    [
      { label: "x", cmd: "exit 0", score: 3 },
      { label: "y", cmd: "exit 0", score: 2 },
    ],
    { select: "min", promoteWinner: false, cleanupLosers: false, captureFiles: false },
  );
  assert.deepEqual([least.winnerOutcome?.label, least.winner], ["y", null]);
  assert.ok(!server.calls.some((call) => call.startsWith("DELETE")));
  const own = await sandbox.explore(["late", "exit 1"], {
    requireSuccess: false,
    select: (outcomes: BranchOutcome[]) =>
      outcomes.find(({ timedOut }) => timedOut) as BranchOutcome,
  });
  assert.equal(own.winnerOutcome?.label, "late");
});

test("without a success nothing is left; too many and no candidates are refused", async () => {
  const { server, sandbox } = await world(2);
  await using _ = server;
  const error = await failureOf(sandbox.explore(["exit 1", "exit 2"]));
  assert.ok(error instanceof ExploreError);
  assert.match(error.message, /exit code 1.*exit code 2|exit code 2.*exit code 1/);
  assert.equal(server.calls.filter((call) => call.startsWith("DELETE")).length, 2);
  assert.ok((await failureOf(sandbox.explore([]))) instanceof ExploreError);
  const many = Array.from({ length: 17 }, () => "true");
  assert.ok((await failureOf(sandbox.explore(many))) instanceof ExploreError);
});
