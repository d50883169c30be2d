import { type ReactNode, useEffect } from "react";
import { Logo } from "@/app/Logo";

/** The frame of the pages for people who are not signed in. */
export function Frame(props: { title: string; description?: ReactNode; children: ReactNode }) {
  const { title, description, children } = props;
  useEffect(() => {
    document.title = `${title} · PandaStack`;
  }, [title]);
  return (
    <main className="flex min-h-full items-center justify-center bg-sunken p-4">
      <div className="w-full max-w-sm rounded-xl border border-line bg-panel p-6 shadow-pop sm:p-8">
        <div className="mb-5 flex items-center gap-2">
          <Logo size={26} />
          <span className="text-base font-semibold">PandaStack</span>
        </div>
        <h1 className="text-xl font-semibold">{title}</h1>
        {description && <p className="mt-1 text-muted">{description}</p>}
        <div className="mt-5 flex flex-col gap-4">{children}</div>
      </div>
    </main>
  );
}
