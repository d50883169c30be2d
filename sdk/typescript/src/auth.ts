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
    return this.#client.transport.json(operations.postAuthLogin(body), options);
  }

  /** Ends the session of this client. */
  async logout(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postAuthLogout(), options);
  }

  /** Exchanges the code of a login at an identity provider for a session. */
  exchangeCode(body: models.ExchangeCode, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(operations.postAuthOidcToken(body), options);
  }

  /** Makes the first account, which administers the server. */
  setUp(body: models.SetUp, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(operations.postAuthSetup(body), options);
  }

  /** Makes an account for an invited person, and accepts the invite. */
  register(body: models.Register, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(operations.postAuthRegister(body), options);
  }

  /** Changes the password. All other sessions end. */
  changePassword(body: models.ChangePassword, options: CallOptions = {}): Promise<models.LoggedIn> {
    return this.#client.transport.json(operations.postAuthPassword(body), options);
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
}
