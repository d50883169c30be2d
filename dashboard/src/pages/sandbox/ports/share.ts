/** The form of a shared preview. Pure. */

/** Path prefixes from lines of text. An error names the first line that is none. */
export function parsePaths(text: string): { paths: string[]; error?: string } {
  const paths: string[] = [];
  for (const line of text.split(/\s+/).filter(Boolean)) {
    if (!line.startsWith("/")) return { paths, error: `“${line}” must start with a slash` };
    if (/[?#]/.test(line))
      return { paths, error: `“${line}” has a query; only paths are compared` };
    if (!paths.includes(line)) paths.push(line);
  }
  return { paths };
}

/** A port from text; undefined if it is none. */
export function parsePort(text: string): number | undefined {
  const port = Number(text);
  return /^\d+$/.test(text.trim()) && port >= 1 && port <= 65535 ? port : undefined;
}

/** The address with the first allowed path, so that the link leads somewhere. */
export function linkTo(url: string, paths: readonly string[]): string {
  const first = paths[0];
  return first === undefined || first === "/" ? url : url.replace(/\/$/, "") + first;
}
