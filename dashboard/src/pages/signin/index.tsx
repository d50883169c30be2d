import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { client } from "@/data/client";
import { finishOidc, startOidc } from "@/data/oidc";
import { loginMethodsQuery, meQuery, safeNext, useSessionChanged } from "@/data/session";
import { Button, CodeBlock, ErrorNote, Field, Input, Loading } from "@/ui";
import { FormError } from "./FormError";
import { Frame } from "./Frame";
import { PasswordField } from "./PasswordField";
import { useSubmit } from "./useSubmit";

/** Sign in with a password or at the identity provider. */
export function SignIn() {
  const { next, code, error: refusal } = useSearch({ from: "/signin" });
  const methods = useQuery(loginMethodsQuery);
  const me = useQuery(meQuery);
  const enter = useEnter();
  const isSignedIn = me.data !== undefined && me.data !== null;
  useEffect(() => {
    // A login at the provider knows by itself where to go on.
    if (isSignedIn && code === undefined) enter(safeNext(next));
  }, [isSignedIn, code, next, enter]);

  if (code !== undefined) return <Returning code={code} />;
  if (methods.isError) {
    return (
      <Frame title="Sign in">
        <ErrorNote error={methods.error} onRetry={() => void methods.refetch()} />
      </Frame>
    );
  }
  if (methods.data === undefined) return <Loading />;
  if (methods.data.setup_required) return <FirstRun />;
  return (
    <Frame title="Sign in" description="To the machines of your team.">
      {refusal !== undefined && <FormError error={new Error(refusal)} />}
      {methods.data.oidc && <OidcButton next={safeNext(next)} />}
      {methods.data.oidc && methods.data.password && <Or />}
      {methods.data.password && (
        <PasswordForm canReset={methods.data.reset_by_email} onDone={() => enter(safeNext(next))} />
      )}
    </Frame>
  );
}

/** Goes into the dashboard after the session has changed. */
function useEnter(): (path: string) => void {
  const navigate = useNavigate();
  const changed = useSessionChanged();
  const latest = useRef((path: string) => {
    void changed().then(() => navigate({ href: path, replace: true }));
  });
  return latest.current;
}

function PasswordForm({ canReset, onDone }: { canReset: boolean; onDone: () => void }) {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [asked, setAsked] = useState(false);
  const { busy, error, submit } = useSubmit(async () => {
    await client.auth.login({ email: email.trim(), password });
    onDone();
  });
  const reset = useSubmit(async () => {
    await client.auth.requestReset(email.trim());
    setAsked(true);
  });
  return (
    <form className="flex flex-col gap-4" onSubmit={submit}>
      <Field label="E-mail">
        {(control) => (
          <Input
            {...control}
            required
            autoFocus
            type="email"
            autoComplete="username"
            value={email}
            onChange={(event) => setEmail(event.target.value)}
          />
        )}
      </Field>
      <PasswordField kind="current" value={password} onChange={setPassword} />
      <FormError error={error ?? reset.error} />
      <Button type="submit" variant="primary" loading={busy}>
        Sign in
      </Button>
      {canReset && !asked && (
        <Button
          variant="ghost"
          loading={reset.busy}
          disabled={email === ""}
          onClick={() => reset.submit()}
        >
          Send me a link to choose a new password
        </Button>
      )}
      {asked && (
        <p role="status" className="text-muted">
          If there is an account, a link is on its way to {email}.
        </p>
      )}
    </form>
  );
}

function OidcButton({ next }: { next: string }) {
  const { busy, error, submit } = useSubmit(() => startOidc(next));
  return (
    <>
      <Button variant="secondary" loading={busy} onClick={() => submit()}>
        Sign in with your organisation’s account
      </Button>
      <FormError error={error} />
    </>
  );
}

function Or() {
  return (
    <div className="flex items-center gap-3 text-xs text-faint">
      <span className="h-px flex-1 bg-line" /> or <span className="h-px flex-1 bg-line" />
    </div>
  );
}

/** Back from the identity provider. */
function Returning({ code }: { code: string }) {
  const enter = useEnter();
  const [error, setError] = useState<unknown>();
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    finishOidc(code).then((next) => enter(safeNext(next)), setError);
  }, [code, enter]);
  if (error === undefined) return <Loading label="Signing in" />;
  return (
    <Frame title="Sign in">
      <FormError error={error} />
      <OidcButton next="/" />
    </Frame>
  );
}

/** Nobody has an account. Only the operator may make the first one. */
function FirstRun() {
  return (
    <Frame
      title="Set up this server"
      description="Nobody has an account yet. The operator makes the first one."
    >
      <p>
        <code className="font-mono text-xs">pandastack up</code> printed a link for this. If it is
        gone, print a new one on the server:
      </p>
      <CodeBlock code="pandastack dashboard" />
      <p className="text-muted">The link works once, for 15 minutes.</p>
    </Frame>
  );
}
