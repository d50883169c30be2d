import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { verifyWebhook, WebhookSignatureError } from "../../src/index.js";

const SECRET = `whsec_${Buffer.from("a secret of thirty-two bytes....").toString("base64")}`;
const BODY = JSON.stringify({ id: "evt_1", type: "sandbox.running", note: "é" });

function headersOf(secret = SECRET, at = Math.floor(Date.now() / 1000)): Record<string, string> {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signature = createHmac("sha256", key).update(`evt_1.${at}.${BODY}`).digest("base64");
  return {
    "Webhook-Id": "evt_1",
    "webhook-timestamp": String(at),
    "webhook-signature": `v1,AAAA v1,${signature}`,
  };
}

test("a good signature gives the event", async () => {
  for (const body of [BODY, new TextEncoder().encode(BODY)]) {
    assert.equal((await verifyWebhook(SECRET, headersOf(), body)).id, "evt_1");
  }
  const headers = new Headers(headersOf());
  assert.equal((await verifyWebhook(SECRET, headers, BODY)).type, "sandbox.running");
});

test("a wrong secret, body, time or header is refused", async () => {
  const other = `whsec_${Buffer.from("another").toString("base64")}`;
  const check = (headers: Record<string, string>, body = BODY): Promise<void> =>
    assert.rejects(verifyWebhook(SECRET, headers, body), WebhookSignatureError);
  await check(headersOf(other));
  await check(headersOf(), `${BODY} `);
  await check(headersOf(SECRET, Math.floor(Date.now() / 1000) - 301));
  await check(headersOf(SECRET, Math.floor(Date.now() / 1000) + 301));
  await check({ ...headersOf(), "webhook-timestamp": "soon" });
  await check({ ...headersOf(), "webhook-signature": "v1,***" });
  await check({});
});
