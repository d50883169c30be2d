/** What an event says to a person. Pure. */

import { millis, shortId } from "./format";

export interface EventText {
  readonly text: string;
  readonly tone: "neutral" | "ok" | "warn" | "danger" | "info" | "sleep";
}

type Payload = Readonly<Record<string, unknown>>;

const TEXTS: Record<string, (payload: Payload) => EventText> = {
  "sandbox.running": (payload) => ({ text: `started${bootText(payload)}`, tone: "ok" }),
  "sandbox.created": (payload) => ({ text: `created${bootText(payload)}`, tone: "ok" }),
  "sandbox.paused": () => ({ text: "paused", tone: "warn" }),
  "sandbox.resumed": () => ({ text: "resumed", tone: "ok" }),
  "sandbox.hibernated": () => ({ text: "fell asleep", tone: "sleep" }),
  "sandbox.woken": (payload) => ({ text: `woke${bootText(payload)}`, tone: "ok" }),
  "sandbox.forked": (payload) => ({ text: `forked${childrenText(payload)}`, tone: "info" }),
  "sandbox.deleted": (payload) => ({
    text: payload["reason"] === "idle" ? "deleted, because it was idle" : "deleted",
    tone: "neutral",
  }),
  "sandbox.failed": (payload) => ({ text: `failed${reasonText(payload)}`, tone: "danger" }),
  "fork_tree.promoted": () => ({ text: "promoted from its tree", tone: "info" }),
  "egress.denied": (payload) => ({
    text: `tried to reach ${String(payload["target"] ?? "a forbidden address")}`,
    tone: "warn",
  }),
  "vm.died": (payload) => ({ text: `ended by itself${reasonText(payload)}`, tone: "danger" }),
  "database.restarted": (payload) => ({
    text: `database started again${reasonText(payload)}`,
    tone: "warn",
  }),
  "database.grown": () => ({ text: "volume grew, because it was nearly full", tone: "info" }),
  "database.not_grown": (payload) => ({
    text: `volume is nearly full and could not grow${reasonText(payload)}`,
    tone: "danger",
  }),
  "database.backup_failed": (payload) => ({
    text: `backup failed${reasonText(payload)}`,
    tone: "danger",
  }),
  "database.archive_failing": () => ({
    text: "changes do not reach the archive in time",
    tone: "danger",
  }),
  "database.archive_recovered": () => ({ text: "changes reach the archive again", tone: "ok" }),
  "template.build": (payload) => ({
    text: `build of ${String(payload["name"] ?? "a template")}: ${String(payload["status"] ?? "")}`,
    tone: payload["status"] === "failed" ? "danger" : payload["status"] === "done" ? "ok" : "info",
  }),
  "billing.budget_alert": (payload) => ({
    text: `${String(payload["percent"] ?? "")} % of the budget are used`,
    tone: "warn",
  }),
  "billing.budget_used_up": () => ({ text: "The budget is used up", tone: "danger" }),
};

/** The text of an event. The kind itself if nothing is known about it. */
export function eventText(kind: string, payload: Payload): EventText {
  return TEXTS[kind]?.(payload) ?? { text: plainKind(kind, payload), tone: "neutral" };
}

function plainKind(kind: string, payload: Payload): string {
  const name = payload["name"] ?? payload["label"] ?? payload["email"] ?? payload["id"];
  const words = kind.replace(/[._]/g, " ");
  return typeof name === "string" && name !== "" ? `${words}: ${name}` : words;
}

function bootText(payload: Payload): string {
  const ms = payload["boot_ms"];
  return typeof ms === "number" ? ` in ${millis(ms)}` : "";
}

function reasonText(payload: Payload): string {
  const reason = payload["reason"];
  return typeof reason === "string" && reason !== "" ? `: ${reason}` : "";
}

function childrenText(payload: Payload): string {
  const children = payload["children"];
  if (!Array.isArray(children) || children.length === 0) return "";
  const [first] = children as unknown[];
  return children.length === 1 && typeof first === "string"
    ? ` to ${shortId(first)}`
    : ` into ${children.length}`;
}
