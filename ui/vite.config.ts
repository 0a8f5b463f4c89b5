import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env["PERDURE_URL"] ?? "http://127.0.0.1:6767";

export default defineConfig({
  plugins: [react(), tailwind()],
  build: {
    outDir: "../src/perdure/server/web",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the policy of the server's pages allows no data: addresses
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  // `./dev ui dev`: the pages of this source before a server that runs. To the server they are its own.
  server: {
    host: "127.0.0.1",
    proxy: {
      "/v1": {
        target: server,
        changeOrigin: true,
        configure: (proxy) => proxy.on("proxyReq", (request) => request.getHeader("origin") && request.setHeader("origin", server)),
      },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
