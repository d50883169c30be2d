import { PandaStackError } from "@pandastack/sdk";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { client } from "@/data/client";
import { loginMethodsQuery, useSessionChanged } from "@/data/session";
import { Button, CodeBlock, ErrorNote, Field, Input, Loading } from "@/ui";
import { FormError } from "../signin/FormError";
import { Frame } from "../signin/Frame";
import { useFragmentSecret } from "../signin/fragment";
import { PasswordField } from "../signin/PasswordField";
import { passwordProblem } from "../signin/passwords";
import { useSubmit } from "../signin/useSubmit";

/** Where the one-time link of the server leads: the set-up of the first account, or a sign in. */
export function Welcome() {
  const token = useFragmentSecret();
  const methods = useQuery({ ...loginMethodsQuery, staleTime: 0 });
  if (methods.isError) {
    return (
      <Frame title="Welcome">
        <ErrorNote error={methods.error} onRetry={() => void methods.refetch()} />
      </Frame>
    );
  }
  if (methods.data === undefined) return <Loading />;
  if (token === "") return <NoLink />;
  if (methods.data.setup_required) return <SetUp token={token} />;
  return <LinkSignIn key={token} token={token} />;
}

function useEnter(): () => Promise<void> {
  const navigate = useNavigate();
  const changed = useSessionChanged();
  return async () => {
    await changed();
    await navigate({ to: "/", replace: true });
  };
}

function SetUp({ token }: { token: string }) {
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const enter = useEnter();
  const { busy, error, submit } = useSubmit(async () => {
    const body = { email: email.trim(), name: name.trim(), password, link: token };
    await client.auth.setUp(body);
    await enter();
  });
  if (codeOf(error) === "auth.link_over") return <LinkOver error={error} />;
  return (
    <Frame
      title="Set up this server"
      description="Make the first account. It administers the server."
    >
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <Field label="Name" optional>
          {(control) => (
            <Input
              {...control}
              autoFocus
              autoComplete="name"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <Field label="E-mail">
          {(control) => (
            <Input
              {...control}
              required
              type="email"
              autoComplete="username"
              value={email}
              onChange={(event) => setEmail(event.target.value)}
            />
          )}
        </Field>
        <PasswordField kind="new" value={password} onChange={setPassword} />
        <FormError error={error} />
        <Button
          type="submit"
          variant="primary"
          loading={busy}
          disabled={email === "" || password === "" || passwordProblem(password) !== undefined}
        >
          Create the account
        </Button>
      </form>
    </Frame>
  );
}

/** Asks first: a stranger may have sent the link, to sign somebody in to the wrong account. */
function LinkSignIn({ token }: { token: string }) {
  const enter = useEnter();
  const { busy, error, submit } = useSubmit(async () => {
    await client.auth.link(token);
    await enter();
  });
  const code = codeOf(error);
  // The link was not used up: it makes the first account.
  if (code === "auth.setup_required") return <SetUp token={token} />;
  if (code === "auth.link_over") return <LinkOver error={error} />;
  return (
    <Frame
      title="Sign in with this link"
      description={`To ${window.location.host}, with the account that the link was made for.`}
    >
      <p className="text-muted">Only go on if you made the link yourself.</p>
      <FormError error={error} />
      <Button variant="primary" loading={busy} onClick={() => submit()}>
        Sign in to this server
      </Button>
    </Frame>
  );
}

function codeOf(error: unknown): string | undefined {
  return error instanceof PandaStackError ? error.code : undefined;
}

function LinkOver({ error }: { error: unknown }) {
  return (
    <Frame title="This link does not work">
      <FormError error={error} />
      <HowToGetLink />
    </Frame>
  );
}

function NoLink() {
  return (
    <Frame title="This link is incomplete">
      <HowToGetLink />
    </Frame>
  );
}

function HowToGetLink() {
  const navigate = useNavigate();
  return (
    <>
      <p className="text-muted">
        A link works once, for 15 minutes. Print a new one on the server:
      </p>
      <CodeBlock code="pandastack dashboard" />
      <Button onClick={() => void navigate({ to: "/signin" })}>Sign in with a password</Button>
    </>
  );
}
