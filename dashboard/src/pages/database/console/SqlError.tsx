import { PandaStackError } from "@pandastack/sdk";
import { ErrorNote, Note } from "@/ui";

/** Why a statement failed, with the hint of PostgreSQL. */
export function SqlError({ error }: { error: unknown }) {
  const hint = hintOf(error);
  return (
    <div className="-mx-4">
      <ErrorNote error={error} title="The statement failed" />
      {hint !== undefined && (
        <div className="mx-4">
          <Note>Hint: {hint}</Note>
        </div>
      )}
    </div>
  );
}

function hintOf(error: unknown): string | undefined {
  if (!(error instanceof PandaStackError)) return undefined;
  const hint = (error.body as { hint?: unknown } | undefined)?.hint;
  return typeof hint === "string" && hint !== "" ? hint : undefined;
}
