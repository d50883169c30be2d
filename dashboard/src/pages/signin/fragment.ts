import { useEffect, useState } from "react";

/** The secret after the `#` of the address. It is taken out of the address and the history at once. */
export function useFragmentSecret(): string {
  const [secret, setSecret] = useState(read);
  useEffect(() => {
    const take = () => {
      if (window.location.hash === "") return;
      setSecret(read());
      window.history.replaceState(window.history.state, "", window.location.pathname);
    };
    take();
    // Another link that is pasted into the same page changes only the fragment.
    window.addEventListener("hashchange", take);
    return () => window.removeEventListener("hashchange", take);
  }, []);
  return secret;
}

function read(): string {
  return window.location.hash.replace(/^#/, "");
}
