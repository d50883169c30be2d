import { CircleAlert, X } from "lucide-react";
import { bytes } from "@/data/format";
import { Button, errorParts } from "@/ui";
import { nameOf } from "./paths";
import type { Upload } from "./uploads";

/** How far the uploads are. */
export function UploadList(props: {
  list: readonly Upload[];
  onStop: (id: number) => void;
  onClear: () => void;
}) {
  const { list, onStop, onClear } = props;
  if (list.length === 0) return null;
  const active = list.filter(({ state }) => state === "waiting" || state === "sending").length;
  return (
    <section
      aria-label="Uploads"
      className="max-h-48 shrink-0 overflow-y-auto border-t border-line bg-sunken p-2 text-xs"
    >
      <header className="flex items-center justify-between pb-1">
        <span role="status">{active > 0 ? `${active} to upload` : "Uploads"}</span>
        <Button size="sm" variant="ghost" onClick={onClear}>
          Clear
        </Button>
      </header>
      <ul className="flex flex-col gap-1.5">
        {list.slice(0, 50).map(({ id, path, size, sent, state, error }) => (
          <li key={id} data-upload={state} className="flex flex-col gap-0.5">
            <span className="flex items-center gap-2">
              <span className="min-w-0 flex-1 truncate" title={path}>
                {nameOf(path)}
              </span>
              <span className="text-muted tabular-nums">
                {state === "sending" ? `${bytes(sent)} of ${bytes(size)}` : state}
              </span>
              {(state === "waiting" || state === "sending") && (
                <button
                  type="button"
                  aria-label={`Stop the upload of ${nameOf(path)}`}
                  onClick={() => onStop(id)}
                >
                  <X size={12} />
                </button>
              )}
            </span>
            {state === "failed" ? (
              <span className="flex items-center gap-1 text-danger">
                <CircleAlert size={12} className="shrink-0" aria-hidden="true" />{" "}
                {errorParts(error).text}
              </span>
            ) : (
              <progress
                aria-label={`Upload of ${nameOf(path)}`}
                max={Math.max(1, size)}
                value={state === "done" ? Math.max(1, size) : sent}
                className="h-1 w-full accent-accent"
              />
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
