import assert from "node:assert/strict";
import { test } from "node:test";
import { AuthError, BadRequestError, NotFoundError, PandaStack } from "../../src/index.js";
import { failureOf } from "../stand-in.js";
import { client, eventually, TEMPLATE } from "./server.js";

test("the server and the caller can be asked about", async () => {
  assert.equal((await client.server.health()).status, "ok");
  assert.ok((await client.server.version()).semver);
  assert.match(await client.server.metrics(), /pandastack/);
  assert.equal((await client.me()).auth_method, "token");
  assert.ok((await client.templates.list()).some(({ name }) => name === TEMPLATE));
  assert.ok(Array.isArray(await client.templates.builds()));
  assert.equal(typeof (await client.usage.quotas()).plan, "string");
  assert.equal((await client.usage.report({ by: "day" })).by, "day");
  assert.equal(typeof (await client.usage.export()), "string");
  assert.ok((await client.billing.pricing()).tiers.length > 0);
  assert.ok("mtd_cost_usd" in (await client.billing.get()));
  assert.ok((await client.metrics.overview({ range: "1h" })).series);
  assert.ok((await client.server.bootStats()).total_samples >= 0);
});

test("keys are made, used and revoked, and that is in the audit trail", async () => {
  const key = await client.apiKeys.create({ label: "typescript test", expiresInDays: 1 });
  const other = new PandaStack({ baseUrl: client.apiUrl, apiKey: key.token });
  assert.ok((await other.apiKeys.list()).some(({ id, current }) => id === key.id && current));
  await client.apiKeys.revoke(key.id);
  assert.ok((await failureOf(other.me())) instanceof AuthError);
  const isNoted = async () =>
    (await client.audit.list({ limit: 50 })).some(
      ({ method, path }) => method === "DELETE" && path.includes(key.id),
    );
  // Entries are written in batches, after the answer.
  await eventually(isNoted, "the revocation in the audit trail");
  assert.ok((await client.audit.export()).length > 0);
});

test("webhooks are made, changed and deleted", async () => {
  const hook = await client.webhooks.create({
    url: "https://hooks.example.com/in",
    events: ["sandbox.*"],
    enabled: false,
  });
  assert.match(hook.secret ?? "", /^whsec_/);
  assert.equal((await client.webhooks.update(hook.id, { description: "x" })).description, "x");
  assert.notEqual((await client.webhooks.rotateSecret(hook.id)).secret, hook.secret);
  assert.deepEqual(await client.webhooks.deliveries(hook.id), []);
  assert.ok(Array.isArray(await client.webhooks.deadLetters()));
  await client.webhooks.delete(hook.id);
  assert.ok((await failureOf(client.webhooks.get(hook.id))) instanceof NotFoundError);
});

test("refusals have a class, a code and the id of their request", async () => {
  const error = await failureOf(client.sandboxes.create({ template: "no-such-template" }));
  assert.ok(error instanceof BadRequestError || error instanceof NotFoundError);
  assert.ok(error.code && error.requestId && error.message.includes("no-such-template"));
  const stranger = new PandaStack({ baseUrl: client.apiUrl, apiKey: `pds_${"0".repeat(32)}` });
  assert.ok((await failureOf(stranger.me())) instanceof AuthError);
});
