import assert from "node:assert/strict";
import { test } from "node:test";
import { Deadline } from "../../src/deadline.js";
import type { Progress } from "../../src/index.js";
import { sendWatched } from "../../src/upload.js";

type Step = (xhr: FakeRequest) => void;

/** As much of a browser's XMLHttpRequest as is used. */
class FakeRequest {
  static step: Step = () => undefined;
  static last: FakeRequest | undefined;
  readonly upload: { onprogress?: (event: object) => void } = {};
  readonly sent: Record<string, string> = {};
  line = "";
  body: unknown;
  status = 0;
  response: ArrayBuffer | null = null;
  responseType = "";
  onload?: () => void;
  onerror?: () => void;
  onabort?: () => void;

  constructor() {
    FakeRequest.last = this;
  }
  open(method: string, address: string): void {
    this.line = `${method} ${address}`;
  }
  setRequestHeader(name: string, value: string): void {
    this.sent[name] = value;
  }
  getAllResponseHeaders(): string {
    return "content-type: application/json\r\nx-request-id: req_1\r\n";
  }
  send(body: unknown): void {
    this.body = body;
    FakeRequest.step(this);
  }
  abort(): void {
    this.onabort?.();
  }
}

const REQUEST = { method: "PUT", headers: new Headers({ "x-a": "1" }), body: "abc" };

function send(
  step: Step,
  deadline: Deadline,
  onProgress?: (progress: Progress) => void,
): Promise<Response> {
  FakeRequest.step = step;
  (globalThis as { XMLHttpRequest?: unknown }).XMLHttpRequest = FakeRequest;
  return sendWatched("http://server/x", REQUEST, deadline, onProgress).finally(() => {
    deadline.stop();
    delete (globalThis as { XMLHttpRequest?: unknown }).XMLHttpRequest;
  });
}

test("a watched upload tells how far it is and answers as fetch does", async () => {
  const seen: Progress[] = [];
  const response = await send(
    (xhr) => {
      for (const loaded of [1, 1, 3]) {
        xhr.upload.onprogress?.({ loaded, total: 3, lengthComputable: true });
      }
      xhr.status = 404;
      xhr.response = new TextEncoder().encode('{"error":"no"}').buffer as ArrayBuffer;
      xhr.onload?.();
    },
    new Deadline("PUT /x", 1000),
    (progress) => void seen.push(progress),
  );
  assert.deepEqual(seen, [
    { bytes: 1, total: 3 },
    { bytes: 3, total: 3 },
  ]);
  assert.equal(response.status, 404);
  assert.equal(response.headers.get("x-request-id"), "req_1");
  assert.deepEqual(await response.json(), { error: "no" });
  assert.equal(FakeRequest.last?.line, "PUT http://server/x");
  assert.deepEqual(FakeRequest.last?.sent, { "x-a": "1" });
  assert.equal(FakeRequest.last?.body, "abc");
});

test("an answer without a body is one", async () => {
  const response = await send((xhr) => {
    xhr.status = 204;
    xhr.onload?.();
  }, new Deadline("PUT /x", 1000));
  assert.equal(response.status, 204);
});

test("a broken connection and a deadline end an upload", async () => {
  const broken = send((xhr) => xhr.onerror?.(), new Deadline("PUT /x", 1000));
  await assert.rejects(broken, /the connection broke/);
  const stalled = send(() => undefined, new Deadline("PUT /x", 20));
  await assert.rejects(stalled, /the upload was stopped/);
});
