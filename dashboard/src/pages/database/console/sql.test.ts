import { expect, test } from "vitest";
import { bareSql, explainOf, returnsRows, runOf, splitStatements } from "./sql";

test("semicolons in quotes and comments end nothing", () => {
  expect(splitStatements("select ';'; -- one; two\nselect 2;")).toEqual([
    "select ';'",
    "-- one; two\nselect 2",
  ]);
  expect(splitStatements("select $a$ ; $$ ; $a$; select 'it''s; ok'")).toEqual([
    "select $a$ ; $$ ; $a$",
    "select 'it''s; ok'",
  ]);
  expect(splitStatements(`select E'a\\';b', ";"`)).toHaveLength(1);
  expect(splitStatements("/* a; /* b; */ c; */ select 1")).toHaveLength(1);
  expect(splitStatements("select $1; select $2")).toHaveLength(2);
  expect(splitStatements(" ; ;\n-- nothing\n")).toEqual([]);
});

test("what is not closed goes to the end", () => {
  expect(bareSql("select 'a;b")).toBe("select ????");
  expect(bareSql("a /* b")).toBe("a     ");
  expect(bareSql("a $$ b")).toBe("a ????");
  expect(bareSql("a$b$c")).toBe("a$b$c");
});

test("the body of a function stays whole", () => {
  const sql = "create function f() returns int language sql begin atomic select 1; select 2; end";
  expect(runOf(sql)).toEqual({ kind: "exec", sql });
});

test("rows are asked for where there are some", () => {
  for (const sql of ["select 1", " (values (1))", "with a as (select 1) table a", "SHOW all"]) {
    expect(returnsRows(sql)).toBe(true);
  }
  expect(returnsRows("insert into a values (1) returning id")).toBe(true);
  expect(returnsRows("insert into a values ('returning')")).toBe(false);
  expect(returnsRows("-- select\nvacuum")).toBe(false);
});

test("one statement is a query or a command, several are a transaction", () => {
  expect(runOf("select 1;")).toEqual({ kind: "query", sql: "select 1" });
  expect(runOf("drop table a")).toEqual({ kind: "exec", sql: "drop table a" });
  const both = { kind: "transaction", statements: ["delete from a", "select 1"] };
  expect(runOf("delete from a; select 1")).toEqual(both);
  expect(runOf("begin; delete from a; select 1; commit;")).toEqual(both);
  expect(runOf("begin; delete from a; end")).toEqual({
    kind: "transaction",
    statements: ["delete from a"],
  });
  expect(runOf("  -- nothing")).toBeUndefined();
});

test("only what reads is run for its plan", () => {
  expect(explainOf("select 1")).toEqual({
    sql: "EXPLAIN (ANALYZE, FORMAT JSON) select 1",
    mode: "measured",
  });
  for (const sql of [
    "delete from a",
    "with gone as (delete from a returning *) select * from gone",
    "select * into b from a",
    "select nextval('a')",
  ]) {
    expect(explainOf(sql)).toEqual({ sql: `EXPLAIN (FORMAT JSON) ${sql}`, mode: "estimated" });
  }
  expect(explainOf("select 'delete'").mode).toBe("measured");
});
