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

/** Writes the explorer at a state: the part of the page in view, or an element of it. */
async function explore(picture, state, [width, height], colorScheme, prepare, selector) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  const page = await context.newPage();
  await page.goto(`${pathToFileURL(join(place, "explorer.html")).href}${state}`);
  await page.waitForSelector(".result:not(.busy)[data-runs]", { state: "attached" });
  await prepare(page);
  await (selector ? page.locator(selector) : page).screenshot({ path: join(images, picture) });
  await context.close();
}

anabranch("explore", "-o", "explorer.html");
const PHONE = "#path=wifi,rate=18,rtt=16,loss=0.01,queue=50&path=lte,rate=21.3,back=6.3,rtt=55,loss=0.01,queue=500&size=3000&schedulers=tcp,linux,min_rtt,dmptcp&runs=50";
const SLOW = "#path=fast,rate=20,rtt=20,queue=100&path=slow,rate=5,rtt=200,queue=100&size=4000&runs=10&schedulers=min_rtt,blest&buffer=100";
const nothing = async () => {};
await explore("explorer.png", PHONE, [1180, 900], "light", nothing);
await explore("explorer-dark.png", PHONE, [1180, 900], "dark", nothing);
await explore("explorer-phone.png", PHONE, [360, 780], "light", nothing);
await explore("explorer-inside.png", SLOW, [1180, 900], "light", async (page) => {
  await page.locator("#inside > summary").click();
  await page.waitForSelector('.stages[data-count="2"]');
  const time = page.getByRole("slider", { name: "Time in the run" });
  await time.evaluate((slider) => {
    slider.value = "360";
    slider.dispatchEvent(new Event("input"));
  });
}, ".stages");
await browser.close();
rmSync(place, { recursive: true });
