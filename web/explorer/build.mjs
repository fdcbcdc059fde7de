// Builds dist/explorer.html: the page of `anabranch explore`, with its style and script inside and a place for the module. It
// uses the tools of ../report, so there is one installation of them.

import { bundle, writePage } from "../report/page.mjs";

const here = new URL(".", import.meta.url);
const worker = await bundle(here, "src/worker.ts");
const script = await bundle(here, "src/main.ts", { WORKER: JSON.stringify(worker) });
writePage(here, "explorer", ["../report/src/style.css", "src/style.css"], script, "%MODULE%");
