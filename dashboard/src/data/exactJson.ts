/** JSON in which large integers keep their digits. Pure. */

/** What newer browsers tell a reviver about a value. */
interface ReviverContext {
  readonly source?: string;
}

type Parse = (
  text: string,
  reviver: (key: string, value: unknown, context?: ReviverContext) => unknown,
) => unknown;

/** Reads JSON. An integer that a number cannot hold becomes text, where the browser can tell. */
export function exactJson(text: string): unknown {
  return (JSON.parse as Parse)(text, (_, value, context) => exact(value, context?.source));
}

/** The value, or its digits if the value lost some. */
export function exact(value: unknown, source: string | undefined): unknown {
  if (typeof value !== "number" || source === undefined) return value;
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(value) ? source : value;
}
