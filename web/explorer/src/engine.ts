// Workers that compute. A question that a newer one replaces is ended with its worker.

/** The script of the worker, as build.mjs bundles it. */
declare const WORKER: string;

export type Answer = { error?: string };

let compiled: Promise<WebAssembly.Module> | null = null;
let place: string | null = null;

/** Compiles the module in the page, once. */
export function module(): Promise<WebAssembly.Module> {
  compiled ??= (async () => {
    const element = document.getElementById("module") as HTMLElement;
    const text = atob((element.textContent ?? "").trim());
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const whole = await new Response(stream).arrayBuffer();
    element.remove();
    return WebAssembly.compile(whole);
  })();
  return compiled;
}

/** One worker. It answers one question at a time. */
export class Engine {
  private worker: Worker | null = null;
  private busy: ((answer: null) => void) | null = null;
  private next = 0;
  /** The time of the last answer in ms. */
  ms = 0;

  /** The answer to `request`, or null if another question was asked meanwhile. */
  async ask<T extends object>(request: object): Promise<(T & Answer) | null> {
    this.stop();
    const id = (this.next += 1);
    const compiled = await module();
    if (id !== this.next) return null;
    if (!this.worker) {
      place ??= URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
      this.worker = new Worker(place);
      this.worker.postMessage({ compiled });
    }
    const worker = this.worker;
    return new Promise((resolve) => {
      this.busy = resolve;
      worker.onmessage = (event: MessageEvent) => {
        if (event.data.id !== id) return;
        this.busy = null;
        this.ms = event.data.ms;
        resolve(event.data.answer as T & Answer);
      };
      worker.postMessage({ id, request });
    });
  }

  /** Ends the question that is being answered. */
  stop(): void {
    this.next += 1;
    if (!this.busy) return;
    this.busy(null);
    this.busy = null;
    this.worker?.terminate();
    this.worker = null;
  }
}
