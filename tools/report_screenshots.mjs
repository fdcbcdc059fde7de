// The pictures of reports and figures in the documentation: `npm run screenshots` in web/report draws them again.
// ANABRANCH is the command, CHROMIUM the browser.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(resolve("package.json"))("playwright-core");
if (!process.env.ANABRANCH) throw new Error("ANABRANCH is not set: it is the command whose results are shown");
const command = resolve(process.env.ANABRANCH);
const images = resolve("../../docs/img");
const place = mkdtempSync(join(tmpdir(), "anabranch-screenshots-"));
const anabranch = (...words) => execFileSync(command, ["-q", ...words], { cwd: place, encoding: "utf8", maxBuffer: 1 << 28 });

writeFileSync(join(place, "phone.json"), anabranch("compare", "phone", "--runs", "20", "--samples", "phone.csv", "--json"));
anabranch("report", "phone.json", "phone.csv", "-o", "phone.html");
anabranch("run", "--path", "20Mbit/s,20ms,name=wifi", "--path", "10Mbit/s,40ms,name=lte,loss=0.1%", "--size", "2MB",
  "--schedulers", "min_rtt,blest", "--record", "first");
anabranch("report", "first", "-o", "first.html");
anabranch("plot", "first", "--figure", "sequence", "--schedulers", "min_rtt", "-o", join(images, "plot-sequence.svg"));

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Writes the part of a page from its top, or an element of it. */
async function shoot(html, picture, height, selector) {
  const context = await browser.newContext({ viewport: { width: 1000, height }, colorScheme: "light" });
  const page = await context.newPage();
  await page.goto(pathToFileURL(join(place, html)).href);
  const part = selector ? page.locator(selector) : page;
  for (const chart of await page.locator(".chart").all()) {
    await chart.scrollIntoViewIfNeeded();
    await chart.and(page.locator("[data-drawn]")).waitFor();
  }
  await page.evaluate(() => scrollTo(0, 0));
  await part.screenshot({ path: join(images, picture) });
  await context.close();
}

await shoot("phone.html", "report.png", 900, null);
await shoot("first.html", "report-recording.png", 900, "#f1-sequence");
await browser.close();
rmSync(place, { recursive: true });
