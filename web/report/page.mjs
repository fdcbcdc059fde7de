// Builds pages that are one file: scripts are bundled, and a page gets its style, its script and the script's hash.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

/** Returns the bundle of the script `entry` in `directory`, a file URL. */
export async function bundle(directory, entry, define = {}) {
  const bundled = await build({
    absWorkingDir: directory.pathname,
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

/** Writes `dist/NAME.html` in `directory` from `src/page.html`; `place` is the text that the command replaces. */
export function writePage(directory, name, styles, script, place) {
  const at = (path) => new URL(path, directory);
  const read = (path) => readFileSync(path, "utf8");
  if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
  const style = styles.map((path) => read(at(path)).trim()).join("\n");
  const hash = createHash("sha256").update(script).digest("base64");
  const version = JSON.parse(read(new URL("node_modules/echarts/package.json", import.meta.url))).version;
  const parts = { STYLE: style, SCRIPT: script, HASH: hash, ECHARTS: version };
  const page = read(at("src/page.html")).replace(/%(STYLE|SCRIPT|HASH|ECHARTS)%/g, (_, part) => parts[part]);
  if (page.split(place).length !== 2) throw new Error(`the page has not exactly one ${place}`);
  writeFileSync(at(`dist/${name}.html`), page);
  console.log(`dist/${name}.html: ${page.length} bytes`);
}
