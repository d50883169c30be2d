import assert from "node:assert/strict";
import { test } from "node:test";
import { BadRequestError, PandaStack } from "../../src/index.js";
import { json, StandIn } from "../stand-in.js";

/** A client as a page of the server makes it. */
function page(server: StandIn, fetched?: (init: RequestInit) => void): PandaStack {
  return new PandaStack({
    baseUrl: server.url,
    session: "cookie",
    fetch: (url, init = {}) => {
      fetched?.(init);
      return fetch(url, init);
    },
  });
}

test("a page sends no key, but the proof that it is no other site", async () => {
  await using server = await StandIn.start((_, response) => json(response, 200, []));
  const inits: RequestInit[] = [];
  await page(server, (init) => inits.push(init)).sandboxes.list();
  const headers = server.seen[0]?.headers ?? {};
  assert.equal(headers.authorization, undefined);
  assert.equal(headers["x-pandastack-csrf"], "1");
  assert.equal(inits[0]?.credentials, "same-origin");
});

test("other clients do not send the header", async () => {
  await using server = await StandIn.start((_, response) => json(response, 200, []));
  await server.client().sandboxes.list();
  assert.equal(server.seen[0]?.headers["x-pandastack-csrf"], undefined);
});

test("every way to log in asks for a cookie", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 200, { email: "a@b", expires_at: "t", user_id: "u" }),
  );
  const { auth } = page(server);
  await auth.login({ email: "a@b", password: "p" });
  await auth.link("psl_1");
  await auth.setUp({ email: "a@b", password: "p" });
  await auth.register({ invite: "i", password: "p" });
  await auth.changePassword({ current_password: "p", new_password: "q" });
  await auth.exchangeCode({ code: "c", verifier: "v" });
  for (const { body } of server.seen) {
    assert.equal(JSON.parse(body.toString()).cookie, true);
  }
  assert.equal(server.seen.length, 6);
});

test("other clients get a token", async () => {
  await using server = await StandIn.start((_, response) => json(response, 200, { token: "t" }));
  await server.client().auth.login({ email: "a@b", password: "p" });
  assert.equal(JSON.parse(server.seen[0]?.body.toString() ?? "").cookie, undefined);
});

test("a cookie and a key together are refused", () => {
  assert.throws(
    () => new PandaStack({ baseUrl: "http://x", session: "cookie", apiKey: "pds_1" }),
    BadRequestError,
  );
});

test("the address of a login at a provider carries what it needs", () => {
  const client = new PandaStack({ baseUrl: "http://x/", session: "cookie" });
  assert.equal(
    client.auth.oidcUrl("http://x/signin", "c_h"),
    "http://x/v1/auth/oidc/start?redirect=http%3A%2F%2Fx%2Fsignin&challenge=c_h",
  );
});
