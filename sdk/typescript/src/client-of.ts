/** The client for static methods: the given one, or a new one. */

import { Client } from "./client.js";
import type { ClientConfig } from "./config.js";

export function clientOf(config?: ClientConfig | Client): Client {
  return config instanceof Client ? config : new Client(config);
}
