/** Sign in at an identity provider: the browser goes there, and comes back with a code. */

import { client } from "./client";

// The text proves that the same browser comes back. It is used once, and goes with the tab.
const VERIFIER = "pandastack-oidc-verifier";
const NEXT = "pandastack-oidc-next";

/** Sends the browser to the provider. */
export async function startOidc(next: string): Promise<void> {
  if (crypto.subtle === undefined) {
    throw new Error("This sign in needs https. Open the dashboard at its https address.");
  }
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  sessionStorage.setItem(VERIFIER, verifier);
  sessionStorage.setItem(NEXT, next);
  const redirect = `${window.location.origin}/signin`;
  window.location.assign(client.auth.oidcUrl(redirect, base64url(new Uint8Array(hash))));
}

/** Exchanges the code for a session. Returns where the person wanted to go. */
export async function finishOidc(code: string): Promise<string> {
  const verifier = sessionStorage.getItem(VERIFIER);
  const next = sessionStorage.getItem(NEXT) ?? "/";
  sessionStorage.removeItem(VERIFIER);
  sessionStorage.removeItem(NEXT);
  if (verifier === null) throw new Error("This sign in began in another tab. Begin again here.");
  await client.auth.exchangeCode({ code, verifier });
  return next;
}

function base64url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
