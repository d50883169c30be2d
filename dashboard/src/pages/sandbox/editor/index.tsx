import { Suspense } from "react";
import { lazyPart, Skeleton } from "@/ui";
import type { EditorProps } from "./Editor";

const Loaded = lazyPart(() => import("./Editor"));

/** A code editor, loaded when the first one is shown. */
export function CodeEditor(props: EditorProps) {
  return (
    <Suspense fallback={<Skeleton className="m-2 h-8" />}>
      <Loaded {...props} />
    </Suspense>
  );
}
