import { ErrorFacts, errorParts } from "@/ui";

/** Why a form was refused. */
export function FormError({ error }: { error: unknown }) {
  if (error === undefined) return null;
  return (
    <div role="alert" className="rounded-md bg-danger-soft px-3 py-2 text-sm break-words">
      {errorParts(error).text}
      <ErrorFacts error={error} />
    </div>
  );
}
