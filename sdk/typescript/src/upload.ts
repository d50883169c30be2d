/** Sends a body so that its progress is known: in browsers, `fetch` does not tell it. */

import type { FetchBody, OnProgress } from "./body.js";
import type { Deadline } from "./deadline.js";

/** Whether this runtime can tell how much of a body was sent. */
export function canWatchUpload(): boolean {
  return typeof globalThis.XMLHttpRequest === "function";
}

/** What is sent. */
export interface WatchedRequest {
  readonly method: string;
  readonly headers: Headers;
  readonly body: FetchBody;
}

/**
 * Sends a request with `XMLHttpRequest` and answers as `fetch` does. Progress keeps the deadline
 * away, so that only a stalled upload meets it.
 */
export function sendWatched(
  address: string,
  request: WatchedRequest,
  deadline: Deadline,
  onProgress: OnProgress | undefined,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    let last = 0;
    const abort = (): void => xhr.abort();
    const settle = (): void => deadline.signal.removeEventListener("abort", abort);
    const fail = (text: string) => (): void => {
      settle();
      reject(new TypeError(text));
    };
    xhr.open(request.method, address);
    xhr.responseType = "arraybuffer";
    request.headers.forEach((value, name) => {
      xhr.setRequestHeader(name, value);
    });
    xhr.upload.onprogress = ({ loaded, total, lengthComputable }) => {
      deadline.touch();
      if (loaded <= last) return;
      last = loaded;
      onProgress?.({ bytes: loaded, total: lengthComputable ? total : undefined });
    };
    xhr.onload = () => {
      settle();
      resolve(responseOf(xhr));
    };
    xhr.onerror = fail("the connection broke");
    xhr.onabort = fail("the upload was stopped");
    deadline.signal.addEventListener("abort", abort, { once: true });
    xhr.send(request.body as XMLHttpRequestBodyInit);
  });
}

function responseOf(xhr: XMLHttpRequest): Response {
  const headers = new Headers();
  for (const line of xhr.getAllResponseHeaders().split("\r\n")) {
    const at = line.indexOf(":");
    if (at > 0) headers.append(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  const { status } = xhr;
  // These have no body, and a Response refuses one.
  const body = [204, 205, 304].includes(status) ? null : (xhr.response as ArrayBuffer);
  return new Response(body, { status, headers });
}
