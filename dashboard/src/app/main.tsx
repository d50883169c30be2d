import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import "./app.css";
import { applyTheme } from "./theme";

applyTheme();

// The code of the list is asked for now, not after the answer to who is signed in.
if (window.location.pathname === "/sandboxes") import("@/pages/sandboxes").catch(() => undefined);

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
