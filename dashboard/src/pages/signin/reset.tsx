import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { client } from "@/data/client";
import { Button, toast } from "@/ui";
import { FormError } from "./FormError";
import { Frame } from "./Frame";
import { useFragmentSecret } from "./fragment";
import { PasswordField } from "./PasswordField";
import { passwordProblem } from "./passwords";
import { useSubmit } from "./useSubmit";

/** Chooses a new password with the secret of a link. */
export function ResetPassword() {
  const token = useFragmentSecret();
  const navigate = useNavigate();
  const [password, setPassword] = useState("");
  const { busy, error, submit } = useSubmit(async () => {
    await client.auth.resetPassword({ token, password });
    toast.success("The new password is set. Sign in with it.");
    await navigate({ to: "/signin" });
  });
  if (token === "") {
    return (
      <Frame title="This link is incomplete">
        <p className="text-muted">Open the whole link from the e-mail, or ask for a new one.</p>
        <Button onClick={() => void navigate({ to: "/signin" })}>Go to the sign in</Button>
      </Frame>
    );
  }
  return (
    <Frame title="Choose a new password">
      <form className="flex flex-col gap-4" onSubmit={submit}>
        <PasswordField
          autoFocus
          kind="new"
          label="New password"
          value={password}
          onChange={setPassword}
        />
        <FormError error={error} />
        <Button
          type="submit"
          variant="primary"
          loading={busy}
          disabled={password === "" || passwordProblem(password) !== undefined}
        >
          Set the password
        </Button>
      </form>
    </Frame>
  );
}
