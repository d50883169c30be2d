/** A new database as a command. Pure. */

import { shell } from "../sandboxes/snippets";

export interface NewDatabase {
  readonly label: string;
  readonly size: string;
  readonly always_on: boolean;
}

export function createCommand({ label, size, always_on }: NewDatabase): string {
  return [
    "pandastack db create",
    ...(label === "" ? [] : [`--label ${shell(label)}`]),
    ...(size === "1g" ? [] : [`--size ${size}`]),
    ...(always_on ? ["--always-on"] : []),
  ].join(" ");
}
