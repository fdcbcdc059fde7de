import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";
const [html, out, scheme = "light", ids = ""] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await (await browser.newContext({ viewport: { width: 1100, height: 900 }, colorScheme: scheme })).newPage();
page.on("console", (m) => console.log("console", m.text()));
page.on("pageerror", (e) => console.log("error", e.message));
await page.goto(pathToFileURL(html).href);
for (const chart of await page.locator(".chart").all()) { await chart.scrollIntoViewIfNeeded(); await chart.and(page.locator("[data-drawn]")).waitFor(); }
await page.evaluate(() => scrollTo(0, 0));
if (ids) for (const id of ids.split(",")) await page.locator("#" + id).screenshot({ path: out.replace(".png", `-${id}.png`) });
else await page.screenshot({ path: out, fullPage: true });
await browser.close();
