/** Organisations, their members and invites, and what they use. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { CallOptions } from "./transport.js";
import type { UsageOptions } from "./usage.js";
import { usageQuery } from "./usage.js";

/** The caller's organisations. These calls need a person's session, not an API key. */
export class OrgsAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The caller's organisations, oldest membership first. */
  list(options: CallOptions = {}): Promise<models.Org[]> {
    return this.#client.transport.json(operations.getOrgs(), options);
  }

  /** Creates an organisation. */
  create(
    name: string,
    options: CallOptions & { slug?: string | undefined } = {},
  ): Promise<models.Org> {
    const body = { name, ...defined({ slug: options.slug }) };
    return this.#client.transport.json(operations.postOrgs(body), options);
  }

  /** An organisation by its id. */
  get(org: string, options: CallOptions = {}): Promise<models.Org> {
    return this.#client.transport.json(operations.getOrgsOrg(org), options);
  }

  /** Renames an organisation. Its slug stays. */
  rename(org: string, name: string, options: CallOptions = {}): Promise<models.Org> {
    return this.#client.transport.json(operations.patchOrgsOrg(org, { name }), options);
  }

  /** Deletes an organisation with everything that it owns. `confirm` is its slug. */
  async delete(
    org: string,
    options: CallOptions & { confirm?: string | undefined } = {},
  ): Promise<void> {
    const call = operations.deleteOrgsOrg(org, defined({ confirm: options.confirm }));
    await this.#client.transport.empty(call, options);
  }

  /** Chooses the organisation that later requests act in. */
  use(org: string, options: CallOptions = {}): Promise<models.CurrentOrg> {
    return this.#client.transport.json(operations.postMeCurrentOrg({ org_id: org }), options);
  }

  /** Leaves an organisation. */
  async leave(org: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postOrgsOrgLeave(org), options);
  }

  /** Makes another member the owner, and the caller an admin. */
  async transfer(org: string, userId: string, options: CallOptions = {}): Promise<void> {
    const call = operations.postOrgsOrgTransfer(org, { user_id: userId });
    await this.#client.transport.empty(call, options);
  }

  /** The members. */
  members(org: string, options: CallOptions = {}): Promise<models.OrgMember[]> {
    return this.#client.transport.json(operations.getOrgsOrgMembers(org), options);
  }

  /** Changes the role of a member: `admin` or `member`. */
  async setRole(
    org: string,
    userId: string,
    role: string,
    options: CallOptions = {},
  ): Promise<void> {
    const call = operations.patchOrgsOrgMembersUser(org, userId, { role });
    await this.#client.transport.empty(call, options);
  }

  /** Removes a member. */
  async removeMember(org: string, userId: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteOrgsOrgMembersUser(org, userId), options);
  }

  /** Invites somebody. Only this answer shows the link. */
  invite(
    org: string,
    email: string,
    options: CallOptions & { role?: string | undefined } = {},
  ): Promise<models.OrgInvite> {
    const body = { email, ...defined({ role: options.role }) };
    return this.#client.transport.json(operations.postOrgsOrgMembers(org, body), options);
  }

  /** The open invites, newest first. */
  invites(org: string, options: CallOptions = {}): Promise<models.OrgInvite[]> {
    return this.#client.transport.json(operations.getOrgsOrgInvites(org), options);
  }

  /** Withdraws an invite. */
  async revokeInvite(org: string, inviteId: string, options: CallOptions = {}): Promise<void> {
    const call = operations.deleteOrgsOrgInvitesInvite(org, inviteId);
    await this.#client.transport.empty(call, options);
  }

  /** Shows an invite to the person who has its link. */
  showInvite(token: string, options: CallOptions = {}): Promise<models.InviteInfo> {
    return this.#client.transport.json(operations.getOrgsInvitesToken(token), options);
  }

  /** Accepts an invite. */
  acceptInvite(token: string, options: CallOptions = {}): Promise<models.AcceptedInvite> {
    return this.#client.transport.json(operations.postOrgsInvitesTokenAccept(token), options);
  }

  /** What the organisation used and costs in this month. */
  billing(org: string, options: CallOptions = {}): Promise<models.Bill> {
    return this.#client.transport.json(operations.getOrgsOrgBilling(org), options);
  }

  /** Makes a page to buy a plan. */
  checkout(
    org: string,
    plan: string,
    options: CallOptions & { interval?: "month" | "year" | undefined } = {},
  ): Promise<models.BillingPage> {
    const body = { plan, ...defined({ interval: options.interval }) };
    return this.#client.transport.json(operations.postOrgsOrgBillingCheckout(org, body), options);
  }

  /** Makes a page to manage the subscription. */
  billingPortal(org: string, options: CallOptions = {}): Promise<models.BillingPage> {
    return this.#client.transport.json(operations.postOrgsOrgBillingPortal(org), options);
  }

  /** Limits what the organisation may cost in a month. */
  setBudget(
    org: string,
    budget: models.WorkspaceBudgetRequest,
    options: CallOptions = {},
  ): Promise<models.WorkspaceBudget> {
    return this.#client.transport.json(operations.putOrgsOrgBudget(org, budget), options);
  }

  /** Removes the limit. */
  async removeBudget(org: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteOrgsOrgBudget(org), options);
  }

  /** What the organisation used, split by day, template, sandbox or member. */
  usage(org: string, options: UsageOptions = {}): Promise<models.UsageReport> {
    const call = operations.getOrgsOrgUsage(org, usageQuery(options));
    return this.#client.transport.json(call, options);
  }

  /** The same as a table in CSV. */
  exportUsage(org: string, options: UsageOptions = {}): Promise<string> {
    const call = operations.getOrgsOrgUsageExport(org, usageQuery(options));
    return this.#client.transport.text(call, options);
  }
}
