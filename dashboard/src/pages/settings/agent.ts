/** A short name for the program of a session. Pure. */

const BROWSERS: readonly [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/Firefox\//, "Firefox"],
  [/Chrome\/|Chromium\//, "Chrome"],
  [/Safari\//, "Safari"],
];

const SYSTEMS: readonly [RegExp, string][] = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/Linux/, "Linux"],
];

/** Such as `Firefox on Linux`; other programs keep the name that they gave. */
export function agentName(agent: string): string {
  if (agent === "") return "unknown program";
  const browser = BROWSERS.find(([pattern]) => pattern.test(agent))?.[1];
  if (browser === undefined) return agent.slice(0, 60);
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  return system === undefined ? browser : `${browser} on ${system}`;
}
