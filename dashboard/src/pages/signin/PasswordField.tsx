import { Eye, EyeOff } from "lucide-react";
import { useState } from "react";
import { Field, Input } from "@/ui";
import { passwordProblem } from "./passwords";

/** A password, hidden until asked. A new one is checked while it is typed. */
export function PasswordField(props: {
  label?: string;
  value: string;
  onChange: (value: string) => void;
  kind: "current" | "new";
  autoFocus?: boolean;
}) {
  const { label = "Password", value, onChange, kind, autoFocus } = props;
  const [shown, setShown] = useState(false);
  return (
    <Field
      label={label}
      error={kind === "new" ? passwordProblem(value) : undefined}
      hint={kind === "new" ? "At least 10 characters" : undefined}
    >
      {(control) => (
        <div className="relative">
          <Input
            {...control}
            required
            autoFocus={autoFocus}
            type={shown ? "text" : "password"}
            autoComplete={kind === "new" ? "new-password" : "current-password"}
            value={value}
            onChange={(event) => onChange(event.target.value)}
            className="pr-9"
          />
          <button
            type="button"
            aria-label={shown ? "Hide the password" : "Show the password"}
            onClick={() => setShown(!shown)}
            className="absolute top-1/2 right-1.5 -translate-y-1/2 rounded p-1 text-faint hover:text-ink"
          >
            {shown ? <EyeOff size={14} /> : <Eye size={14} />}
          </button>
        </div>
      )}
    </Field>
  );
}
