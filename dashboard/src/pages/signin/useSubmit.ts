import { type FormEvent, useState } from "react";

/** The state of a form that is sent once at a time. */
export function useSubmit(work: () => Promise<void>): {
  busy: boolean;
  error: unknown;
  submit: (event?: FormEvent) => void;
} {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const submit = (event?: FormEvent): void => {
    event?.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(undefined);
    work()
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return { busy, error, submit };
}
