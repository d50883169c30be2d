import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Monitor, Moon, Sun } from "lucide-react";
import { useState } from "react";
import { setTheme, useTheme } from "@/app/theme";
import { client } from "@/data/client";
import { exactTime } from "@/data/format";
import { keys, sessionsQuery, versionQuery } from "@/data/queries";
import { useMe, useRights } from "@/data/session";
import { Badge, Button, Card, CopyText, Note, PageBody, PageHeader, Segmented, toast } from "@/ui";
import { FormError } from "../signin/FormError";
import { PasswordField } from "../signin/PasswordField";
import { passwordProblem } from "../signin/passwords";
import { useSubmit } from "../signin/useSubmit";
import { Sessions } from "./Sessions";

/** Profile, password, sessions and theme of the person. */
export function Settings() {
  const me = useMe();
  const isPerson = me.auth_method === "session";
  return (
    <>
      <PageHeader title="Settings" />
      <PageBody className="max-w-4xl">
        <Profile />
        <Appearance />
        {isPerson ? (
          <>
            <Password />
            <Sessions />
          </>
        ) : (
          <Note>
            You act by {me.auth_method === "token" ? "an API key" : me.auth_method}: there is no
            password and no session to manage.
          </Note>
        )}
        <Server />
      </PageBody>
    </>
  );
}

function Profile() {
  const me = useMe();
  const { org, role } = useRights();
  const rows: [string, React.ReactNode][] = [
    ["E-mail", me.email ? <CopyText key="email" text={me.email} className="text-ink" /> : "–"],
    ["User", <CopyText key="id" text={me.user_id} />],
    ["Organisation", org ? `${org.name}, ${role}` : "–"],
    ["Workspace", <CopyText key="ws" text={me.workspace} />],
    [
      "Server",
      me.operator ? (
        <Badge key="operator" tone="info">
          operator
        </Badge>
      ) : (
        "user"
      ),
    ],
  ];
  return (
    <Card title="Profile">
      <dl className="grid grid-cols-[7rem_minmax(0,1fr)] gap-y-1.5">
        {rows.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 truncate">{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function Appearance() {
  const theme = useTheme();
  return (
    <Card title="Theme" description="Kept in this browser">
      <Segmented
        label="Theme"
        value={theme}
        onChange={setTheme}
        choices={[
          { value: "light", label: <Choice icon={<Sun size={14} />} text="Light" /> },
          { value: "dark", label: <Choice icon={<Moon size={14} />} text="Dark" /> },
          { value: "system", label: <Choice icon={<Monitor size={14} />} text="As the system" /> },
        ]}
      />
    </Card>
  );
}

function Choice({ icon, text }: { icon: React.ReactNode; text: string }) {
  return (
    <span className="flex items-center gap-1.5 py-1">
      {icon} {text}
    </span>
  );
}

function Password() {
  const queries = useQueryClient();
  const me = useMe();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const { busy, error, submit } = useSubmit(async () => {
    await client.auth.changePassword({ current_password: current, new_password: next });
    setCurrent("");
    setNext("");
    await queries.invalidateQueries({ queryKey: keys.sessions });
    toast.success("The password is changed, and all other sessions have ended");
  });
  return (
    <Card title="Password" description="A change ends all your other sessions">
      <form className="flex max-w-sm flex-col gap-3" onSubmit={submit}>
        <input type="hidden" autoComplete="username" value={me.email} readOnly />
        <PasswordField
          kind="current"
          label="Current password"
          value={current}
          onChange={setCurrent}
        />
        <PasswordField kind="new" label="New password" value={next} onChange={setNext} />
        <FormError error={error} />
        <Button
          type="submit"
          className="self-start"
          loading={busy}
          disabled={current === "" || next === "" || passwordProblem(next) !== undefined}
        >
          Change the password
        </Button>
      </form>
    </Card>
  );
}

function Server() {
  const { data } = useQuery(versionQuery);
  const sessions = useQuery({ ...sessionsQuery, enabled: false });
  const mine = sessions.data?.find(({ current }) => current);
  return (
    <Card title="Server">
      <p className="text-muted">
        {data
          ? `Version ${data.semver}, ${data.os} on ${data.arch}, isolation ${data.isolation ?? "unknown"}`
          : "…"}
        {mine && `. Your session lasts until ${exactTime(mine.expires_at)}`}
      </p>
      <p className="mt-1">
        <a href="/licences.txt" className="text-accent underline">
          Licences of the packages in this page
        </a>
      </p>
      {data?.isolation_warning && <p className="mt-1 text-warn">{data.isolation_warning}</p>}
    </Card>
  );
}
