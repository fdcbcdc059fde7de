// The worker: computes the answers to requests, one after another.

import { Module } from "./module";

let compiled: WebAssembly.Module | null = null;
let module: Module | null = null;

self.onmessage = (event: MessageEvent) => {
  const { id, request } = event.data as { id: number; request?: object };
  compiled = (event.data as { compiled?: WebAssembly.Module }).compiled ?? compiled;
  if (!request || !compiled) return;
  const begun = performance.now();
  try {
    module ??= new Module(compiled);
    const answer = JSON.parse(module.answer(request));
    self.postMessage({ id, answer, ms: performance.now() - begun });
  } catch (error) {
    // An instance that has stopped within a call is in no defined state.
    module = null;
    self.postMessage({ id, answer: { error: `the computation failed: ${String(error)}` }, ms: performance.now() - begun });
  }
};
