import { expect, test } from "vitest";
import { planOf } from "./plan";

const JOIN = {
  Plan: {
    "Node Type": "Hash Join",
    "Join Type": "Left",
    "Actual Total Time": 10,
    "Actual Rows": 100,
    "Actual Loops": 1,
    "Plan Rows": 90,
    "Hash Cond": "(a.id = b.id)",
    Plans: [
      {
        "Node Type": "Seq Scan",
        "Relation Name": "users",
        Alias: "a",
        "Actual Total Time": 6,
        "Actual Rows": 5000,
        "Actual Loops": 1,
        "Plan Rows": 10,
        Filter: "(age > 3)",
        "Rows Removed by Filter": 7,
      },
      {
        "Node Type": "Index Scan",
        "Relation Name": "orders",
        Alias: "orders",
        "Actual Total Time": 0.5,
        "Actual Rows": 1,
        "Actual Loops": 4,
        "Plan Rows": 1,
      },
    ],
  },
  "Planning Time": 0.25,
  "Execution Time": 10.4,
};

test("each node has its own time, its rows and its conditions", () => {
  const plan = planOf([JOIN]);
  expect(plan?.summary).toBe("Planned in 0.3 ms, ran in 10 ms");
  expect(plan?.root).toMatchObject({
    id: "0",
    title: "Hash Left Join",
    details: ["Hash condition: (a.id = b.id)"],
    rows: "100 rows",
    own: "2 ms",
    share: 0.2,
  });
  const [scan, index] = plan?.root.children ?? [];
  expect(scan).toMatchObject({
    id: "0.0",
    title: "Seq Scan on users a",
    own: "6 ms",
    surprise: "10 rows were expected",
    details: ["Filter: (age > 3)", "Rows removed by the filter: 7"],
  });
  expect(index).toMatchObject({ title: "Index Scan on orders", own: "2 ms", share: 0.2 });
  expect(index?.rows).toBe("4 rows in 4 loops");
  expect(index?.surprise).toBeUndefined();
});

test("workers run side by side", () => {
  const scan = { "Node Type": "Seq Scan", "Actual Total Time": 9, "Actual Loops": 3 };
  const gather = {
    "Node Type": "Gather",
    "Workers Launched": 2,
    "Actual Total Time": 10,
    "Actual Loops": 1,
    Plans: [scan],
  };
  const plan = planOf([{ Plan: gather, "Planning Time": 1, "Execution Time": 10 }]);
  expect(plan?.root.own).toBe("1 ms");
  expect(plan?.root.children[0]?.own).toBe("9 ms");
});

test("what a limit stops early is no surprise", () => {
  const rows = { "Actual Total Time": 1, "Actual Loops": 1, "Plan Rows": 900 };
  const scan = { ...rows, "Node Type": "Seq Scan", "Actual Rows": 5 };
  const limit = { ...rows, "Node Type": "Limit", "Actual Rows": 5, "Plan Rows": 5, Plans: [scan] };
  expect(planOf([{ Plan: limit }])?.root.children[0]?.surprise).toBeUndefined();
  expect(planOf([{ Plan: scan }])?.root.surprise).toBe("900 rows were expected");
});

test("an estimate has costs instead of times", () => {
  const plan = planOf(
    JSON.stringify([{ Plan: { "Node Type": "Result", "Total Cost": 40, "Plan Rows": 3 } }]),
  );
  expect(plan?.summary).toBe("Estimated cost 40; the statement was not run");
  expect(plan?.root).toMatchObject({ own: "cost 40", share: 1, rows: "3 rows expected" });
});

test("something else is no plan", () => {
  for (const value of [null, "x", "{", [], [{}], 3]) expect(planOf(value)).toBeUndefined();
});
