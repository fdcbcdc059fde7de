// The module of crates/web: a request and its answer are JSON in the module's memory.

interface Exports {
  memory: WebAssembly.Memory;
  anabranch_request(length: number): number;
  anabranch_answer(): number;
  anabranch_answer_place(): number;
}

export class Module {
  private readonly exports: Exports;

  constructor(module: WebAssembly.Module) {
    this.exports = new WebAssembly.Instance(module).exports as unknown as Exports;
  }

  /** The text of the answer to a request. */
  answer(request: object): string {
    const text = new TextEncoder().encode(JSON.stringify(request));
    const place = this.exports.anabranch_request(text.length);
    // A view of the memory is valid until the memory grows.
    new Uint8Array(this.exports.memory.buffer, place, text.length).set(text);
    const length = this.exports.anabranch_answer() >>> 0;
    return new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, this.exports.anabranch_answer_place() >>> 0, length));
  }
}
