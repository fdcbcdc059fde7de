// Builds dist/report.html: the page of `anabranch report`, with its style and script inside and a place for the data.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const at = (path) => new URL(path, import.meta.url);
const read = (path) => readFileSync(at(path), "utf8");

const bundled = await build({
  absWorkingDir: at(".").pathname,
  entryPoints: ["src/main.ts"],
  bundle: true,
  minify: true,
  charset: "ascii",
  format: "iife",
  target: "es2022",
  legalComments: "none",
  write: false,
});
const script = bundled.outputFiles[0].text.trim();
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
const style = read("src/style.css").trim();
const hash = createHash("sha256").update(script).digest("base64");
const version = JSON.parse(read("node_modules/echarts/package.json")).version;
const parts = { STYLE: style, SCRIPT: script, HASH: hash, ECHARTS: version };
const page = read("src/page.html").replace(/%(STYLE|SCRIPT|HASH|ECHARTS)%/g, (_, name) => parts[name]);
if (page.split("%DATA%").length !== 2) throw new Error("the page has not exactly one place for the data");
writeFileSync(at("dist/report.html"), page);
console.log(`dist/report.html: ${page.length} bytes`);
