// Builds dist/report.html: the page of `anabranch report`, with its style and script inside and a place for the data.

import { bundle, writePage } from "./page.mjs";

const here = new URL(".", import.meta.url);
writePage(here, "report", ["src/style.css"], await bundle(here, "src/main.ts"), "%DATA%");
