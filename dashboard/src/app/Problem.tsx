import { Link } from "@tanstack/react-router";
import { buttonClass, EmptyState, ErrorNote, PageHeader, PartMissingError } from "@/ui";

/** An address without a page. */
export function NotFound() {
  return (
    <main>
      <EmptyState
        title="There is no such page"
        actions={
          <Link to="/" className={buttonClass("primary")}>
            Go to the overview
          </Link>
        }
      >
        <p>Check the address, or press Ctrl-K to find a page.</p>
      </EmptyState>
    </main>
  );
}

/** A page that failed. The rest of the dashboard goes on. */
export function PageError({ error, reset }: { error: unknown; reset: () => void }) {
  // What did not come is remembered as missing, and a new server has other files: only a reload
  // gets it.
  if (error instanceof PartMissingError) {
    return (
      <div>
        <PageHeader title="This page did not load" />
        <ErrorNote
          error={error}
          title="A part of the page is missing"
          retry="Reload"
          onRetry={() => window.location.reload()}
        />
      </div>
    );
  }
  return (
    <div>
      <PageHeader title="This page failed" />
      <ErrorNote error={error} title="Something went wrong here" onRetry={reset} />
    </div>
  );
}
