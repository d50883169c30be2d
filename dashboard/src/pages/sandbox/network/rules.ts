/** Egress rules as people write them. Pure; the server has the last word. */

const HOST =
  /^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i;
const NETWORK = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(\/(\d{1,2}))?$/;

export const RULES_MAX = 256;

/** Why a line is no rule; undefined if it is one. */
export function ruleProblem(rule: string): string | undefined {
  const network = NETWORK.exec(rule);
  if (network) {
    const parts = network.slice(1, 5).map(Number);
    const bits = network[6] === undefined ? 32 : Number(network[6]);
    return parts.every((part) => part <= 255) && bits <= 32
      ? undefined
      : `“${rule}” is no IPv4 network`;
  }
  if (rule.includes("://") || rule.includes("/"))
    return `“${rule}” is an address; write only the host name`;
  if (rule.includes(":")) return `“${rule}” has a port; rules are for all ports`;
  return HOST.test(rule) && rule.length <= 253
    ? undefined
    : `“${rule}” is no host name, *.suffix or network`;
}

/** Rules from text, one per line or word. An error names the first that is none. */
export function parseRules(text: string): { rules: string[]; error?: string } {
  const rules = [...new Set(text.split(/[\s,]+/).filter(Boolean))];
  const error = rules.map(ruleProblem).find((problem) => problem !== undefined);
  if (error !== undefined) return { rules, error };
  return rules.length > RULES_MAX ? { rules, error: `At most ${RULES_MAX} rules` } : { rules };
}

/** The host of a refused destination such as `example.com:443`, as a rule. */
export function ruleFor(target: string): string {
  return target.replace(/:\d+$/, "").replace(/\.$/, "");
}
