import { PandaStack, Sandbox } from "@pandastack/sdk";

/** The one client of the page. The browser sends the session cookie by itself. */
export const client = new PandaStack({
  baseUrl: window.location.origin,
  session: "cookie",
  // A person who waits sees why; the buttons offer another try.
  maxCreateRetrySeconds: 10,
});

/** The address for commands and snippets. */
export const SERVER_URL = window.location.origin;

/** The SDK's object for a sandbox of which only the id is needed. Sends nothing. */
export function sandboxHandle(id: string): Sandbox {
  return Sandbox.fromInfo({ id, template: "", cpu: 0, memory_mb: 0, status: "" }, client);
}
