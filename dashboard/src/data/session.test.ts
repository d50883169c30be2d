import type { models } from "@pandastack/sdk";
import { expect, it, vi } from "vitest";
import type { Me } from "./session";

vi.mock("./client", () => ({ client: {} }));

const { isSamePlace, rightsOf, safeNext } = await import("./session");

function person(org: models.Org | null): Me {
  return {
    auth_method: "session",
    current_org: org,
    current_org_id: org?.id ?? null,
    email: "",
    orgs: org === null ? [] : [org],
    user_id: "u",
    workspace: "o",
  };
}

it.each([
  ["/sandboxes?state=running", "/sandboxes?state=running"],
  ["//evil.example", "/"],
  ["https://evil.example", "/"],
  ["/\\evil.example", "/"],
  ["/signin?next=/x", "/"],
  ["/v1/sandboxes", "/"],
  [undefined, "/"],
  [7, "/"],
])("after sign in %s leads to %s", (next, path) => {
  expect(safeNext(next)).toBe(path);
});

it("a page is for one person in one workspace", () => {
  const me = person(null);
  expect(isSamePlace(me, { ...me, email: "new@example.org" })).toBe(true);
  expect(isSamePlace(me, { ...me, workspace: "p" })).toBe(false);
  expect(isSamePlace(me, { ...me, user_id: "v" })).toBe(false);
  expect(isSamePlace(me, null)).toBe(false);
});

it("knows what each role may do", () => {
  const org = { id: "o", name: "O", slug: "o", created_at: "", owner_user_id: "u", role: "admin" };
  const me = person(org);
  expect(rightsOf(me)).toMatchObject({ role: "admin", canManage: true, isOwner: false });
  expect(rightsOf({ ...me, current_org: null })).toMatchObject({ role: "admin" });
  expect(rightsOf({ ...me, current_org: null, current_org_id: null, orgs: [] })).toMatchObject({
    org: null,
    role: "member",
    canManage: false,
  });
});
