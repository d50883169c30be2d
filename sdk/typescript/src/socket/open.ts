/** Chooses the WebSocket for this runtime. */

import type { Deadline } from "../deadline.js";
import { hasNodeModules, socketSendsHeaders } from "../runtime.js";
import type { SocketLink } from "./link.js";
import { openNodeSocket } from "./node.js";
import { openWebSocket } from "./web.js";

/** Opens a WebSocket to an http or https address. */
export function openLink(
  address: string,
  headers: Record<string, string>,
  deadline: Deadline,
): Promise<SocketLink> {
  if (socketSendsHeaders()) return openWebSocket(address, headers, true, deadline);
  if (hasNodeModules()) return openNodeSocket(address, headers, deadline);
  return openWebSocket(address, headers, false, deadline);
}
