import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { licencesText, packages } from "./scripts/licences.mjs";

const SERVER_DEFAULT = "http://127.0.0.1:8080";

// `npm run dev` forwards these paths to a server. The key, if one is named, is added by the proxy:
// it never reaches the page. A built page has no proxy and no key.
const API_PATHS = ["/v1", "/healthz", "/version", "/docs", "/openapi.json", "/mcp"];

export default defineConfig(() => {
  const target = process.env["PANDASTACK_API"] ?? SERVER_DEFAULT;
  const key = process.env["PANDASTACK_API_KEY"];
  const entry = {
    target,
    changeOrigin: key !== undefined,
    ws: true,
    ...(key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } }),
  };
  return {
    plugins: [react(), tailwindcss(), licences()],
    resolve: {
      alias: {
        "@pandastack/sdk": at("../sdk/typescript/src/index.ts"),
        "@": at("./src"),
      },
    },
    build: {
      target: "es2022",
      // Every file is served by name: the content security policy forbids most data: addresses.
      assetsInlineLimit: 0,
      // A style sheet of a part that fails to load is never asked for again, so there is only one.
      cssCodeSplit: false,
      modulePreload: { polyfill: false },
      reportCompressedSize: true,
      chunkSizeWarningLimit: 700,
      // One file for the first load: each further one costs a request before anything is drawn.
      rolldownOptions: {
        output: { codeSplitting: { groups: [{ name: "first", tags: ["$initial"] }] } },
      },
    },
    server: {
      host: "127.0.0.1",
      fs: { allow: [at("."), at("../sdk/typescript/src")] },
      proxy: Object.fromEntries(API_PATHS.map((path) => [path, entry])),
    },
    test: { include: ["src/**/*.test.ts"], environment: "node" },
  };
});

/** Adds the licences of the packages to the page. */
function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      this.emitFile({
        type: "asset",
        fileName: "licences.txt",
        source: licencesText(packages()),
      });
    },
  };
}

function at(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}
