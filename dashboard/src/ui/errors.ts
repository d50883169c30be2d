/** What an error says to a person. Pure. */

import { PandaStackError } from "@pandastack/sdk";

export interface ErrorParts {
  readonly text: string;
  readonly code?: string;
  readonly requestId?: string;
}

// The `error` of each 401. The SDK puts it before the reason, which is in `detail`.
const UNAUTHORIZED = "unauthorized";

/** The text, the code and the id of the request. No word is in both the text and the code. */
export function errorParts(error: unknown): ErrorParts {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof PandaStackError)) return { text: message };
  const { code, requestId } = error;
  return {
    text: reasonOf(message, code),
    // The server sends the code as the text if there is no reason.
    ...(code === undefined || code === message ? {} : { code }),
    ...(requestId === undefined ? {} : { requestId }),
  };
}

/** The reason as a sentence if a word for programs stands before it, else the text as it is. */
function reasonOf(message: string, code: string | undefined): string {
  const prefix = [`${code}: `, `${UNAUTHORIZED}: `].find((one) => message.startsWith(one));
  if (prefix === undefined) return message;
  const reason = message.slice(prefix.length);
  const end = /[.!?]$/.test(reason) ? "" : ".";
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${end}`;
}
