/** Who is signed in. */

import { AuthError, type models } from "@pandastack/sdk";
import {
  onlineManager,
  type QueryClient,
  queryOptions,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { client } from "./client";

export type Me = models.Me;
export type Role = "owner" | "admin" | "member";

// Scripts cannot read the session cookie. This mark says that somebody signed in here. Without it
// the page does not call /v1/me, which would answer 401 and leave an error in the console.
const MARK = "pandastack-signed-in";
const CHANGES = "pandastack-session";
// A page hears its own messages too.
const OWN = Math.random();

/** What a tab tells the others. `leaving` comes before the session ends, `out` after it. */
interface Note {
  readonly from: number;
  readonly what: "leaving" | "out" | "changed";
}

const leaving = new Set<() => void>();

function markSignedIn(on: boolean): void {
  try {
    if (on) window.localStorage.setItem(MARK, "yes");
    else window.localStorage.removeItem(MARK);
  } catch {
    // Without storage the page always asks.
  }
}

function tellTabs(what: Note["what"]): void {
  if (typeof BroadcastChannel !== "function") return;
  const channel = new BroadcastChannel(CHANGES);
  channel.postMessage({ from: OWN, what } satisfies Note);
  channel.close();
}

/**
 * Looks again who is signed in when another tab signs in or out, or changes the organisation. The
 * page of somebody else is loaded anew, so that nothing of the old one stays.
 */
export function watchSession(queries: QueryClient): () => void {
  let isReloading = false;
  const look = async (): Promise<void> => {
    const before = queries.getQueryData(meQuery.queryKey);
    const after = await readMe();
    // Two messages tell about one sign out. A second reload would cut the first one.
    if (isReloading) return;
    isReloading = Boolean(before) && !isSamePlace(before, after);
    if (isReloading) window.location.reload();
    else queries.setQueryData(meQuery.queryKey, after);
  };
  // Without an answer the page goes on; its next request tells.
  const onChange = (): void => void look().catch(() => undefined);
  const onNote = ({ data }: MessageEvent<Note>): void => {
    if (data.from === OWN) return;
    if (data.what === "leaving") leave();
    // The storage of this tab may not know it yet.
    if (data.what === "out") markSignedIn(false);
    if (data.what !== "leaving") onChange();
  };
  const onStorage = ({ key }: StorageEvent): void => {
    if (key === MARK || key === null) onChange();
  };
  const channel = typeof BroadcastChannel === "function" ? new BroadcastChannel(CHANGES) : null;
  channel?.addEventListener("message", onNote);
  window.addEventListener("storage", onStorage);
  return () => {
    window.removeEventListener("storage", onStorage);
    channel?.close();
  };
}

/** Calls a function right before this browser signs out. Returns how to stop. */
export function onSignOut(listener: () => void): () => void {
  leaving.add(listener);
  return () => leaving.delete(listener);
}

function leave(): void {
  for (const listener of leaving) listener();
}

/** Whether a page shows the same to both. */
export function isSamePlace(before: Me | null | undefined, after: Me | null): boolean {
  return before?.user_id === after?.user_id && before?.workspace === after?.workspace;
}

/** Whether it makes sense to ask for something that needs a session. */
export function mayBeSignedIn(): boolean {
  try {
    return import.meta.env.DEV || window.localStorage.getItem(MARK) === "yes";
  } catch {
    return true;
  }
}

async function readMe(signal?: AbortSignal): Promise<Me | null> {
  if (!mayBeSignedIn() && !(await client.auth.methods({ signal })).stub) return null;
  try {
    return (await client.me({ signal })) as unknown as Me;
  } catch (error) {
    if (!(error instanceof AuthError) || error.status !== 401) throw error;
    markSignedIn(false);
    return null;
  }
}

/** The signed-in person; null if nobody is. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => readMe(signal),
  staleTime: 5 * 60_000,
  retry: 1,
});

/** How people can sign in to this server. */
export const loginMethodsQuery = queryOptions({
  queryKey: ["login-methods"],
  queryFn: ({ signal }) => client.auth.methods({ signal }),
  staleTime: 60_000,
});

/** The signed-in person. Only for pages inside the shell, which is not shown without one. */
export function useMe(): Me {
  const { data } = useQuery(meQuery);
  if (!data) throw new Error("useMe needs a signed-in person");
  return data;
}

/** What the person may do in the current organisation. */
export interface Rights {
  readonly org: models.Org | null;
  readonly role: Role;
  /** May invite and remove members, and rename the organisation. */
  readonly canManage: boolean;
  /** May change roles, and transfer or delete the organisation. */
  readonly isOwner: boolean;
}

/** What the signed-in person may do. */
export function useRights(): Rights {
  return rightsOf(useMe());
}

/** What a person may do, from what the server says about them. */
export function rightsOf(me: Me): Rights {
  const org = me.current_org ?? me.orgs?.find(({ id }) => id === me.current_org_id) ?? null;
  const role = (org?.role ?? "member") as Role;
  return { org, role, canManage: role !== "member", isOwner: role === "owner" };
}

/** Forgets everything and reads again who is signed in: after sign in, and after an org switch. */
export function useSessionChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return async () => {
    markSignedIn(true);
    await queries.cancelQueries();
    // An invite that was accepted cannot be read again.
    const kept = ["me", "invite"];
    queries.removeQueries({ predicate: ({ queryKey }) => !kept.includes(String(queryKey[0])) });
    await queries.fetchQuery({ ...meQuery, staleTime: 0 });
    tellTabs("changed");
  };
}

/** Ends the session and shows the sign-in page. The reload drops everything from memory. */
export async function signOut(): Promise<void> {
  leave();
  tellTabs("leaving");
  // Pauses all queries: after the sign-out the server would answer them with 401.
  onlineManager.setOnline(false);
  await client.auth.logout().catch((error: unknown) => {
    if (error instanceof AuthError) return;
    onlineManager.setOnline(true);
    throw error;
  });
  markSignedIn(false);
  // The commands of this tab are no business of the next person.
  window.sessionStorage.clear();
  tellTabs("out");
  window.location.assign("/signin");
}

/** Where to go after sign in: only a path of this page, never another site. */
export function safeNext(next: unknown): string {
  if (typeof next !== "string" || !next.startsWith("/") || next.startsWith("//")) return "/";
  if (next.includes("\\") || /^\/(signin|welcome|setup|invite|v1)(\/|$|\?)/.test(next)) return "/";
  return next;
}
