/** Lists in the two shapes that servers use. */

/** The entries of a list, which is an array or an object with `items`. */
export function itemsOf<T>(answer: unknown): T[] {
  if (Array.isArray(answer)) return answer as T[];
  return (answer as { items?: T[] } | undefined)?.items ?? [];
}
