import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { client } from "@/data/client";
import { exactTime } from "@/data/format";
import { loginMethodsQuery, meQuery, useSessionChanged } from "@/data/session";
import { Button, ErrorFacts, errorParts, Field, Input, Loading } from "@/ui";
import { FormError } from "../signin/FormError";
import { Frame } from "../signin/Frame";
import { PasswordField } from "../signin/PasswordField";
import { passwordProblem } from "../signin/passwords";
import { useSubmit } from "../signin/useSubmit";

/** Shows an invite, and accepts it: with the account of this browser, or with a new one. */
export function AcceptInvite() {
  const { token } = useParams({ from: "/invite/$token" });
  const me = useQuery(meQuery);
  const methods = useQuery(loginMethodsQuery);
  const invite = useQuery({
    queryKey: ["invite", token],
    queryFn: ({ signal }) => client.orgs.showInvite(token, { signal }),
    retry: false,
  });
  if (invite.isError) {
    return (
      <Frame title="This invite does not work">
        <p className="text-muted">{errorParts(invite.error).text}</p>
        <ErrorFacts error={invite.error} />
        <p>Ask the person who sent it for a new link.</p>
      </Frame>
    );
  }
  if (!invite.data || me.data === undefined || !methods.data) return <Loading />;
  const { org_name, email, role, expires_at } = invite.data;
  return (
    <Frame
      title={`Join ${org_name}`}
      description={
        <>
          You are invited as <strong>{role}</strong> with the address <strong>{email}</strong>,
          until {exactTime(expires_at)}.
        </>
      }
    >
      {me.data ? (
        <Accept token={token} email={me.data.email} invited={email} />
      ) : (
        <Join token={token} email={email} />
      )}
    </Frame>
  );
}

function useEnter(): () => Promise<void> {
  const navigate = useNavigate();
  const changed = useSessionChanged();
  return async () => {
    await changed();
    await navigate({ to: "/", replace: true });
  };
}

function Accept(props: { token: string; email: string; invited: string }) {
  const { token, email, invited } = props;
  const enter = useEnter();
  const { busy, error, submit } = useSubmit(async () => {
    const { org_id } = await client.orgs.acceptInvite(token);
    await client.orgs.use(org_id);
    await enter();
  });
  return (
    <>
      <p>
        You are signed in as <strong>{email}</strong>.
        {email !== invited &&
          " The invite is for another address; sign out first if it is not yours."}
      </p>
      <FormError error={error} />
      <Button variant="primary" loading={busy} onClick={() => submit()}>
        Accept the invite
      </Button>
    </>
  );
}

/** A new account, or the password of an account that this browser is not signed in to. */
function Join({ token, email }: { token: string; email: string }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [hasAccount, setHasAccount] = useState(false);
  const enter = useEnter();
  const { busy, error, submit } = useSubmit(async () => {
    if (hasAccount) {
      await client.auth.login({ email, password });
      const { org_id } = await client.orgs.acceptInvite(token);
      await client.orgs.use(org_id);
    } else {
      await client.auth.register({ invite: token, name: name.trim(), password });
    }
    await enter();
  });
  return (
    <form className="flex flex-col gap-4" onSubmit={submit}>
      <input type="hidden" autoComplete="username" value={email} readOnly />
      {!hasAccount && (
        <Field label="Name" optional>
          {(control) => (
            <Input
              {...control}
              autoComplete="name"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
      )}
      <PasswordField
        kind={hasAccount ? "current" : "new"}
        label={hasAccount ? "Your password" : "Choose a password"}
        value={password}
        onChange={setPassword}
      />
      <FormError error={error} />
      <Button
        type="submit"
        variant="primary"
        loading={busy}
        disabled={password === "" || (!hasAccount && passwordProblem(password) !== undefined)}
      >
        {hasAccount ? "Sign in and join" : "Create the account and join"}
      </Button>
      <Button variant="ghost" onClick={() => setHasAccount(!hasAccount)}>
        {hasAccount ? "I have no account yet" : "I have an account"}
      </Button>
    </form>
  );
}
