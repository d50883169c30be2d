import { Play, Square, Workflow } from "lucide-react";
import type { DatabaseInfo } from "@/data/databases";
import { millis } from "@/data/format";
import { Button, Card, cx, Kbd, Note, Spinner } from "@/ui";
import { CodeEditor } from "../../sandbox/editor";
import { PlanPicture } from "./PlanPicture";
import { Results } from "./Results";
import { SqlError } from "./SqlError";
import { type Outcome, useConsole } from "./useConsole";

/** Runs SQL over HTTP, and shows rows and plans. */
export default function ConsolePart(props: {
  database: DatabaseInfo;
  sql: string;
  onSql: (sql: string) => void;
}) {
  const { database, sql, onSql } = props;
  const { outcome, running, run, explain, stop } = useConsole(database);
  const isReady = Boolean(database.broker_token) && database.status !== "failed";
  return (
    <div className="flex flex-col gap-4 px-4 py-4 md:px-6">
      {!isReady && <Note>The console works as soon as the database has credentials.</Note>}
      {database.status === "hibernated" && (
        <Note>The database sleeps. The first statement wakes it.</Note>
      )}
      <Card flush>
        <div className="h-40 resize-y overflow-hidden rounded-t-lg bg-sunken">
          <CodeEditor
            fill
            label="SQL"
            language="sql"
            value={sql}
            onChange={onSql}
            placeholder="select * from pg_stat_activity"
            keys={{
              "Mod-Enter": (text) => isReady && run(text),
              "Mod-Shift-Enter": (text) => isReady && explain(text),
            }}
          />
        </div>
        <Toolbar
          canRun={isReady && !running && sql.trim() !== ""}
          running={running}
          onRun={() => run(sql)}
          onExplain={() => explain(sql)}
          onStop={stop}
        />
      </Card>
      <div aria-live="polite" className={cx("flex flex-col gap-4", running && "opacity-60")}>
        {running && outcome === undefined && (
          <p className="flex items-center gap-2 text-muted">
            <Spinner /> Running…
          </p>
        )}
        {outcome !== undefined && <Shown outcome={outcome} />}
      </div>
    </div>
  );
}

function Toolbar(props: {
  canRun: boolean;
  running: boolean;
  onRun: () => void;
  onExplain: () => void;
  onStop: () => void;
}) {
  const { canRun, running, onRun, onExplain, onStop } = props;
  return (
    <div
      role="toolbar"
      aria-label="Statement"
      className="flex flex-wrap items-center gap-2 border-t border-line px-3 py-2"
    >
      <Button
        variant="primary"
        size="sm"
        icon={<Play size={14} />}
        disabled={!canRun}
        onClick={onRun}
      >
        Run
      </Button>
      <Button size="sm" icon={<Workflow size={14} />} disabled={!canRun} onClick={onExplain}>
        Explain
      </Button>
      {running && (
        <Button size="sm" icon={<Square size={14} />} onClick={onStop}>
          Stop
        </Button>
      )}
      <span className="flex-1" />
      <span className="hidden text-xs text-muted sm:inline">
        <Kbd keys="mod+enter" /> runs. Several statements are one transaction
      </span>
    </div>
  );
}

function Shown({ outcome }: { outcome: Outcome }) {
  switch (outcome.kind) {
    case "failed":
      return <SqlError error={outcome.error} />;
    case "note":
      return <Note>{outcome.text}</Note>;
    case "plan":
      return <PlanPicture plan={outcome.plan} mode={outcome.mode} />;
    case "rows":
      return (
        <>
          {outcome.answer.results.map((result, at) => (
            <Results
              // biome-ignore lint/suspicious/noArrayIndexKey: results never move
              key={at}
              result={result}
              statement={outcome.statements[at] ?? ""}
              took={outcome.answer.results.length === 1 ? millis(outcome.answer.durationMs) : ""}
            />
          ))}
          {outcome.answer.results.length > 1 && (
            <p className="text-xs text-muted">
              {outcome.answer.results.length} statements in one transaction, in{" "}
              {millis(outcome.answer.durationMs)}
            </p>
          )}
        </>
      );
  }
}
