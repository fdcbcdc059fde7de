// Tools of the tests: the command, the module as the page loads it, and the page as the command writes it.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";

const at = (path) => new URL(path, import.meta.url);
export const require = createRequire(at("../../report/package.json"));

export const command = process.env.ANABRANCH && resolve(process.env.ANABRANCH);
if (!command) throw new Error("ANABRANCH is not set: it is the command to test");
export const place = mkdtempSync(join(tmpdir(), "anabranch-explorer-"));
export const anabranch = (...words) => execFileSync(command, ["-q", ...words], { cwd: place, encoding: "utf8", maxBuffer: 1 << 28 });

/** Runs the command, which may fail. */
export function attempt(...words) {
  const { stdout, stderr, status } = spawnSync(command, ["-q", "--color", "never", ...words], { cwd: place, encoding: "utf8", maxBuffer: 1 << 28 });
  return { stdout, stderr, status };
}

/** A TypeScript file of the page, bundled as a module for Node. */
export async function source(path) {
  const { outputFiles } = await require("esbuild").build({ entryPoints: [at(path).pathname], bundle: true, format: "esm", write: false });
  const file = join(place, `${path.replace(/\W/g, "-")}.mjs`);
  writeFileSync(file, outputFiles[0].text);
  return import(file);
}

/** The module of the committed page. */
export async function load() {
  const { Module } = await source("../src/module.ts");
  return new Module(new WebAssembly.Module(gunzipSync(readFileSync(at("../dist/anabranch.wasm.gz")))));
}
