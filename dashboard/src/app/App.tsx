import { AuthError, NetworkError, NotFoundError, PandaStackError } from "@pandastack/sdk";
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useEffect } from "react";
import { meQuery, watchSession } from "@/data/session";
import { Toaster, TooltipProvider } from "@/ui";
import { router } from "./router";

const RETRIES_MAX = 2;

/** A refusal stays one; only a failure of the network or the server is tried again. */
function retry(failures: number, error: unknown): boolean {
  if (failures >= RETRIES_MAX) return false;
  if (error instanceof NetworkError) return true;
  if (error instanceof NotFoundError || !(error instanceof PandaStackError)) return false;
  return (error.status ?? 0) >= 500;
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      // The session ended. Who is signed in is read again, and the shell shows the sign-in page.
      const isSession = error instanceof AuthError && error.status === 401;
      if (isSession && query.queryKey[0] !== "me") {
        void queryClient.invalidateQueries({ queryKey: meQuery.queryKey });
      }
    },
  }),
  defaultOptions: {
    queries: { retry, staleTime: 10_000, refetchOnWindowFocus: false },
    mutations: { retry: false },
  },
});

export function App() {
  useEffect(() => watchSession(queryClient), []);
  return (
    <QueryClientProvider client={queryClient}>
      <TooltipProvider>
        <RouterProvider router={router} context={{ queryClient }} />
        <Toaster />
      </TooltipProvider>
    </QueryClientProvider>
  );
}
