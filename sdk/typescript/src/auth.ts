/** Accounts and sessions of people. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import type { CallOptions } from "./transport.js";

/**
 * Accounts and sessions. A session's token is used as the key of a client:
 *
 * ```ts
 * const { token } = await client.auth.login({ email, password });
 * const mine = new PandaStack({ apiKey: token });
 * ```
 *
 * A client with `session: "cookie"` gets a cookie instead, and the answers have no token.
 */
export class AuthAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** How people can log in to this server. */
  methods(options: CallOptions = {}): Promise<models.LoginMethods> {
    return this.#client.transport.json(operations.getAuth(), options);
  }

  /** Logs in with a password. */
  login(body: models.LogIn, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(operations.postAuthLogin(this.#withCookie(body)), options);
  }

  /** Ends the session of this client. */
  async logout(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postAuthLogout(), options);
  }

  /**
   * The address where a browser begins a login at the identity provider. It comes back to
   * `redirect` with a `code`. `challenge` is the unpadded base64url SHA-256 of the verifier.
   */
  oidcUrl(redirect: string, challenge: string): string {
    const query = new URLSearchParams({ redirect, challenge });
    return `${this.#client.apiUrl}/v1/auth/oidc/start?${query}`;
  }

  /** Exchanges the code of a login at an identity provider for a session. */
  exchangeCode(body: models.ExchangeCode, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(
      operations.postAuthOidcToken(this.#withCookie(body)),
      options,
    );
  }

  /** Logs in with the one-time link that the server printed, as its first owner. */
  link(token: string, options: CallOptions = {}): Promise<models.LoggedIn> {
    const call = operations.postAuthLink(this.#withCookie({ token }));
    return this.#client.transport.json(call, options);
  }

  /** Makes a link that logs the caller in once, for a browser. */
  makeLink(options: CallOptions = {}): Promise<models.SignInLink> {
    return this.#client.transport.json(operations.postAuthLinks(), options);
  }

  /** Makes the first account, which administers the server. */
  setUp(body: models.SetUp, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(operations.postAuthSetup(this.#withCookie(body)), options);
  }

  /** Makes an account for an invited person, and accepts the invite. */
  register(body: models.Register, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(
      operations.postAuthRegister(this.#withCookie(body)),
      options,
    );
  }

  /** Changes the password. All other sessions end. */
  changePassword(body: models.ChangePassword, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(
      operations.postAuthPassword(this.#withCookie(body)),
      options,
    );
  }

  /** Asks for a link to reset a password, by e-mail. */
  async requestReset(email: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postAuthResetRequest({ email }), options);
  }

  /** Sets a new password with the secret of a reset link. */
  async resetPassword(body: models.ResetPassword, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postAuthReset(body), options);
  }

  /** The caller's sessions, newest first. */
  sessions(options: CallOptions = {}): Promise<models.LoginSession[]> {
    return this.#client.transport.json(operations.getAuthSessions(), options);
  }

  /** Ends a session of the caller. */
  async endSession(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteAuthSessionsSession(id), options);
  }

  /** Asks for a cookie if this client lives in a page of the server. */
  #withCookie<T extends object>(body: T): T {
    return this.#client.usesCookie ? { ...body, cookie: true } : body;
  }
}
