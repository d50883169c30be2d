/** Short messages at the corner of the page. */

import { errorParts } from "./errors";

export interface ToastMessage {
  readonly id: number;
  readonly tone: "ok" | "info" | "error";
  readonly title: string;
  readonly error?: unknown;
  readonly action?: { readonly label: string; readonly run: () => void };
}

type Rest = Pick<ToastMessage, "action">;

const SHOWN_MAX = 4;
const SHOWN_MS = 5_000;
const ERROR_MS = 12_000;

let messages: readonly ToastMessage[] = [];
let nextId = 1;
const listeners = new Set<() => void>();

function set(next: readonly ToastMessage[]): void {
  messages = next;
  for (const listener of listeners) listener();
}

function show(message: Omit<ToastMessage, "id">, ms: number): void {
  const id = nextId++;
  set([...messages, { ...message, id }].slice(-SHOWN_MAX));
  setTimeout(() => toast.dismiss(id), ms);
}

export const toast = {
  success(title: string, rest: Rest = {}): void {
    show({ tone: "ok", title, ...rest }, SHOWN_MS);
  },
  info(title: string, rest: Rest = {}): void {
    show({ tone: "info", title, ...rest }, SHOWN_MS);
  },
  /** Shows what failed, the code, and the id of the request. */
  error(error: unknown, title?: string): void {
    show({ tone: "error", title: title ?? errorParts(error).text, error }, ERROR_MS);
  },
  dismiss(id: number): void {
    set(messages.filter((one) => one.id !== id));
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  get(): readonly ToastMessage[] {
    return messages;
  },
};
