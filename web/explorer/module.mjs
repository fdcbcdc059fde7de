// Builds dist/anabranch.wasm.gz: the WebAssembly module of crates/web. It is kept in the repository, so that neither a build of the
// command nor the tests need it; test/module.test.mjs compares its results with the command's.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { constants, gzipSync } from "node:zlib";

const root = new URL("../../", import.meta.url).pathname;
const target = process.env.CARGO_TARGET_DIR ?? `${root}target`;
const words = ["build", "--locked", "--profile", "web", "--target", "wasm32-unknown-unknown", "-p", "anabranch-web"];
// Paths of this machine, which panics would name, are no part of the module.
const sources = `${process.env.CARGO_HOME ?? `${process.env.HOME}/.cargo`}/registry/src`;
const places = [root, ...readdirSync(sources).map((name) => `${sources}/${name}/`)];
const flags = places.map((place) => `--remap-path-prefix=${place}=`).join("\x1f");
execFileSync("cargo", words, { cwd: root, stdio: "inherit", env: { ...process.env, CARGO_ENCODED_RUSTFLAGS: flags } });
const module = readFileSync(`${target}/wasm32-unknown-unknown/web/anabranch_web.wasm`);
const packed = gzipSync(module, { level: constants.Z_BEST_COMPRESSION });
writeFileSync(new URL("dist/anabranch.wasm.gz", import.meta.url), packed);
console.log(`dist/anabranch.wasm.gz: ${packed.length} bytes, ${module.length} unpacked`);
