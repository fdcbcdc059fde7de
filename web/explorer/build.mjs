// Builds dist/explorer.html: the page of `anabranch explore`, with its style and script inside and a place for the module. It
// uses the tools of ../report, so there is one installation of them.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const at = (path) => new URL(path, import.meta.url);
const read = (path) => readFileSync(at(path), "utf8");
const { build } = createRequire(at("../report/package.json"))("esbuild");

async function bundle(entry, define = {}) {
  const bundled = await build({
    absWorkingDir: at(".").pathname,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    charset: "ascii",
    format: "iife",
    target: "es2022",
    legalComments: "none",
    define,
    write: false,
  });
  return bundled.outputFiles[0].text.trim();
}

const worker = await bundle("src/worker.ts");
const script = await bundle("src/main.ts", { WORKER: JSON.stringify(worker) });
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
const style = `${read("../report/src/style.css").trim()}\n${read("src/style.css").trim()}`;
const hash = createHash("sha256").update(script).digest("base64");
const version = JSON.parse(read("../report/node_modules/echarts/package.json")).version;
const parts = { STYLE: style, SCRIPT: script, HASH: hash, ECHARTS: version };
const page = read("src/page.html").replace(/%(STYLE|SCRIPT|HASH|ECHARTS)%/g, (_, name) => parts[name]);
if (page.split("%MODULE%").length !== 2) throw new Error("the page has not exactly one place for the module");
writeFileSync(at("dist/explorer.html"), page);
console.log(`dist/explorer.html: ${page.length} bytes`);
