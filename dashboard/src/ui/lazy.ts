/** Parts of the page that are loaded when they are shown. */

import { type ComponentType, type LazyExoticComponent, lazy } from "react";

// A browser drops every open request when its host gets a network interface.
const WAITS_MS = [200, 600, 1500];

/** A part of the page did not come, also not when it was asked for again. */
export class PartMissingError extends Error {
  constructor(cause: unknown) {
    super("The network was cut, or the server was updated. Reload the page to get the part.", {
      cause,
    });
    this.name = "PartMissingError";
  }
}

/** Loads a part, and tries again after a short wait if it does not come. */
export async function loadPart<T>(
  load: () => Promise<T>,
  waitsMs: readonly number[] = WAITS_MS,
): Promise<T> {
  for (const waitMs of waitsMs) {
    try {
      return await load();
    } catch {
      await new Promise((done) => setTimeout(done, waitMs));
    }
  }
  return load().catch((cause: unknown) => {
    throw new PartMissingError(cause);
  });
}

/** A component that is loaded when it is first shown. */
export function lazyPart<P>(
  load: () => Promise<{ default: ComponentType<P> }>,
): LazyExoticComponent<ComponentType<P>> {
  return lazy(() => loadPart(load));
}
