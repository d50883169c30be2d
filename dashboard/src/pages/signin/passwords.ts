/** Rules for passwords, as the server has them. Pure. */

export const PASSWORD_MIN = 10;

/** Why a password cannot be used; undefined if it can. */
export function passwordProblem(password: string): string | undefined {
  if (password.length === 0) return undefined;
  if (password.length < PASSWORD_MIN) return `Use at least ${PASSWORD_MIN} characters`;
  return undefined;
}
