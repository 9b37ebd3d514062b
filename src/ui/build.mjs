// Bundles the dashboard into dist/: ui.js, ui.css, the icon, and the licenses of what the script contains. The same sources
// always give the same bytes, which a test compares.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist");

mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { ui: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  // Shorter than what the type checker reads: children are arguments, not a property of each element.
  jsx: "transform",
  jsxFactory: "h",
  jsxFragment: "Fragment",
  inject: ["src/jsx.ts"],
  tsconfigRaw: {},
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
copyFileSync(join(here, "src/icon.svg"), join(out, "icon.svg"));

const bundled = ["preact"];
const licenses = bundled.map((name) => {
  const dir = join(here, "node_modules", name);
  const { version } = JSON.parse(readFileSync(join(dir, "package.json"), "utf8"));
  return `${name} ${version}\n\n${readFileSync(join(dir, "LICENSE"), "utf8").trim()}\n`;
});
writeFileSync(join(out, "licenses.txt"), licenses.join(`\n${"-".repeat(72)}\n\n`));
