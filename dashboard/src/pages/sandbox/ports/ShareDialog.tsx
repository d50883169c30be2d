import type { models } from "@pandastack/sdk";
import { ExternalLink } from "lucide-react";
import { useState } from "react";
import { sandboxHandle } from "@/data/client";
import {
  Button,
  CodeBlock,
  Dialog,
  ErrorNote,
  Field,
  Input,
  Note,
  RelativeTime,
  Select,
  TextArea,
} from "@/ui";
import { useSubmit } from "../../signin/useSubmit";
import { linkTo, parsePaths, parsePort } from "./share";

const TTLS: readonly [number, string][] = [
  [600, "10 minutes"],
  [3600, "1 hour"],
  [86_400, "1 day"],
  [604_800, "1 week"],
];

const DESCRIPTION = "Who has the link can use the port, without an account, until it expires.";

/** Makes a signed link to a port: for some paths, and for a time. */
export function ShareDialog(props: { sandboxId: string; port: number; onClose: () => void }) {
  const { sandboxId, port, onClose } = props;
  const [preview, setPreview] = useState<models.Preview>();
  if (preview === undefined) {
    return <AskLink sandboxId={sandboxId} port={port} onClose={onClose} onMade={setPreview} />;
  }
  return (
    <Dialog
      open
      sticky
      onClose={onClose}
      title="Share a preview"
      description={DESCRIPTION}
      footer={
        <>
          <Button onClick={() => setPreview(undefined)}>Another link</Button>
          <Button variant="primary" onClick={onClose}>
            Done
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <CodeBlock code={linkTo(preview.url, preview.paths)} />
        <p className="flex flex-wrap items-center gap-2 text-muted">
          <a
            href={linkTo(preview.url, preview.paths)}
            target="_blank"
            rel="noopener noreferrer"
            className="inline-flex items-center gap-1 text-accent underline"
          >
            Open it <ExternalLink size={12} aria-hidden="true" />
          </a>
          Expires <RelativeTime at={preview.expires_at} />.
          {preview.paths.length > 0 ? ` Only ${preview.paths.join(", ")}.` : " All paths."}
        </p>
        <Note>The link cannot be taken back before it expires. Deleting the sandbox ends it.</Note>
      </div>
    </Dialog>
  );
}

function AskLink(props: {
  sandboxId: string;
  port: number;
  onClose: () => void;
  onMade: (preview: models.Preview) => void;
}) {
  const { sandboxId, onClose, onMade } = props;
  const [port, setPort] = useState(props.port === 0 ? "" : String(props.port));
  const [ttl, setTtl] = useState(3600);
  const [text, setText] = useState("");
  const number = parsePort(port);
  const { paths, error: pathError } = parsePaths(text);
  const isGood = number !== undefined && pathError === undefined;
  const { busy, error, submit } = useSubmit(async () => {
    if (!isGood) return;
    const options = { ttlSeconds: ttl, ...(paths.length === 0 ? {} : { paths }) };
    onMade(await sandboxHandle(sandboxId).ports.share(number, options));
  });
  return (
    <Dialog
      open
      sticky
      onClose={onClose}
      title="Share a preview"
      description={DESCRIPTION}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            form="share-port"
            variant="primary"
            loading={busy}
            disabled={!isGood}
          >
            Make the link
          </Button>
        </>
      }
    >
      <form id="share-port" className="flex flex-col gap-4" onSubmit={submit}>
        <div className="grid grid-cols-2 gap-4">
          <Field
            label="Port"
            error={port !== "" && number === undefined ? "1 to 65535" : undefined}
          >
            {(control) => (
              <Input
                {...control}
                inputMode="numeric"
                value={port}
                onChange={(event) => setPort(event.target.value)}
              />
            )}
          </Field>
          <ExpiresField seconds={ttl} onChange={setTtl} />
        </div>
        <PathsField text={text} error={pathError} onChange={setText} />
        {error !== undefined && <ErrorNote error={error} title="The link was not made" />}
      </form>
    </Dialog>
  );
}

function ExpiresField(props: { seconds: number; onChange: (seconds: number) => void }) {
  return (
    <Field label="Expires after">
      {(control) => (
        <Select
          {...control}
          value={props.seconds}
          onChange={(event) => props.onChange(Number(event.target.value))}
        >
          {TTLS.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}

function PathsField(props: {
  text: string;
  error: string | undefined;
  onChange: (text: string) => void;
}) {
  return (
    <Field
      label="Allowed paths"
      optional
      hint="Prefixes such as /docs, one per line. None: every path"
      error={props.error}
    >
      {(control) => (
        <TextArea
          {...control}
          rows={3}
          value={props.text}
          className="font-mono text-xs"
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
