import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type DatabaseInfo, runSql, type SqlAnswer } from "@/data/databases";
import { keys } from "@/data/queries";
import { type Plan, planOf } from "./plan";
import { ROWS_MAX } from "./results";
import { type Explain, explainOf, runOf, splitStatements } from "./sql";

/** What the last run gave. */
export type Outcome =
  | { readonly kind: "failed"; readonly error: unknown }
  | { readonly kind: "note"; readonly text: string }
  | { readonly kind: "plan"; readonly plan: Plan; readonly mode: Explain["mode"] }
  | { readonly kind: "rows"; readonly answer: SqlAnswer; readonly statements: readonly string[] };

/** Runs one text at a time. Leaving the page ends it. */
export function useConsole(database: DatabaseInfo) {
  const queries = useQueryClient();
  const [outcome, setOutcome] = useState<Outcome>();
  const [running, setRunning] = useState(false);
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  const start = (work: (signal: AbortSignal) => Promise<Outcome>): void => {
    if (current.current !== undefined) return;
    const control = new AbortController();
    current.current = control;
    setRunning(true);
    const stopped: Outcome = { kind: "note", text: "Stopped. The server may have done the work." };
    work(control.signal)
      .catch((error: unknown): Outcome => {
        return control.signal.aborted ? stopped : { kind: "failed", error };
      })
      .then((next) => {
        current.current = undefined;
        setOutcome(next);
        setRunning(false);
        // A statement wakes the machine.
        void queries.invalidateQueries({ queryKey: keys.database(database.id), exact: true });
      });
  };
  return {
    outcome,
    running,
    run: (text: string): void => start((signal) => runText(database, text, signal)),
    explain: (text: string): void => start((signal) => explainText(database, text, signal)),
    stop: (): void => current.current?.abort(),
  };
}

async function runText(
  database: DatabaseInfo,
  text: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const run = runOf(text);
  if (run === undefined) return { kind: "note", text: "There is no statement to run." };
  // One more than is shown, to know whether there are more.
  const answer = await runSql(database, run, { signal, rowsMax: ROWS_MAX + 1 });
  const statements = run.kind === "transaction" ? run.statements : [run.sql];
  return { kind: "rows", answer, statements };
}

async function explainText(
  database: DatabaseInfo,
  text: string,
  signal: AbortSignal,
): Promise<Outcome> {
  const [statement, ...more] = splitStatements(text);
  if (statement === undefined || more.length > 0) {
    return { kind: "note", text: "Explain shows the plan of one statement." };
  }
  const { sql, mode } = explainOf(statement);
  const { results } = await runSql(database, { kind: "query", sql }, { signal });
  const plan = planOf(results[0]?.rows?.[0]?.[0]);
  if (plan === undefined) return { kind: "note", text: "The server gave no plan for it." };
  return { kind: "plan", plan, mode };
}
