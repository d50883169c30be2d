import { expect, test } from "vitest";
import { connectSnippets, shownUrl } from "./snippets";

const DATABASE = {
  id: "d1",
  status: "running",
  template: "postgres-16",
  database: "pandastack",
  connection_url: "postgres://pandastack:s3cret_-@d1.db.localhost:5432/pandastack",
  broker_url: "http://localhost:8080/v1/databases/d1/proxy",
  broker_token: "pds_pg_t0ken",
};

test("a hidden password is nowhere", () => {
  const hidden = JSON.stringify(connectSnippets(DATABASE, "hidden"));
  expect(hidden).not.toContain("s3cret");
  expect(hidden).not.toContain("t0ken");
  expect(shownUrl(DATABASE.connection_url, "hidden")).toBe(
    "postgres://pandastack:••••••••@d1.db.localhost:5432/pandastack",
  );
});

test("what is copied works", () => {
  const { psql, HTTP } = connectSnippets(DATABASE, "shown") ?? {};
  expect(psql).toContain(`psql "${DATABASE.connection_url}?sslmode=require"`);
  expect(psql).toContain("pandastack db psql d1");
  expect(HTTP).toContain("/v1/databases/d1/proxy/v1/query");
  expect(HTTP).toContain("Bearer pds_pg_t0ken");
});

test("without credentials there is nothing to show", () => {
  expect(connectSnippets({ id: "a", status: "provisioning", template: "x" }, "shown")).toBe(
    undefined,
  );
});
