// The page in a real browser: ANABRANCH is the command, CHROMIUM the browser.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const command = process.env.ANABRANCH;
if (!command) throw new Error("ANABRANCH is not set: it is the command to test");
const place = mkdtempSync(join(tmpdir(), "anabranch-report-"));
const anabranch = (...words) => execFileSync(command, ["-q", ...words], { cwd: place, encoding: "utf8", maxBuffer: 1 << 28 });
const file = (name) => join(place, name);

const HOSTILE = [
  "</script><script>window.broken = 1</script>",
  "<img src=x onerror='window.broken = 1'>",
  "\"quotes\" & 'more' {a|b} {c}",
  "\u05e9\u05dc\u05d5\u05dd \u202eright to left",
  `long ${"name ".repeat(60)}`,
];

let browser;
before(async () => {
  const run = (name, ...words) => writeFileSync(file(`${name}.json`), anabranch("compare", ...words, "--json"));
  run("phone", "phone", "--runs", "12", "--samples", "phone.csv");
  anabranch("report", "phone.json", "phone.csv", "-o", "comparison.html");
  anabranch("sweep", "two-paths", "--vary", "path.1.rate=5..50 Mbit/s:3:log", "--vary", "path.2.rtt=20ms,60ms", "--runs", "3", "-o", "grid");
  anabranch("report", "grid", "-o", "sweep.html");
  // Partial: without the last two points.
  const journal = readFileSync(file("grid/journal.ndjson"), "utf8").trimEnd().split("\n");
  writeFileSync(file("grid/journal.ndjson"), `${journal.slice(0, -2).join("\n")}\n`);
  anabranch("report", "grid", "-o", "partial.html");
  writeFileSync(file("hostile.json"), hostile(readFileSync(file("phone.json"), "utf8")));
  anabranch("report", "hostile.json", "-o", "hostile.html");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  rmSync(place, { recursive: true, force: true });
});

/** The comparison with other names of schedulers, conditions and paths. */
function hostile(text) {
  const result = JSON.parse(text);
  const names = new Map();
  const other = (name) => {
    if (!names.has(name)) names.set(name, HOSTILE[names.size % HOSTILE.length]);
    return names.get(name);
  };
  for (const row of result.rows) row.scheduler = other(row.scheduler);
  result.reference = other(result.reference);
  for (const [at, condition] of result.conditions.entries()) {
    const name = HOSTILE[at];
    for (const list of [result.rows, result.verdicts]) for (const each of list) if (each.condition === condition.name) each.condition = name;
    condition.name = name;
    condition.paths = condition.paths.map((_, path) => HOSTILE[path + 1]);
  }
  result.verdict = HOSTILE.join(" ");
  return JSON.stringify(result);
}

/** Opens a page and fails on any message, error or request. */
async function open(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (message) => trouble.push(message.text()));
  page.on("pageerror", (error) => trouble.push(error.message));
  const url = pathToFileURL(file(name)).href;
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:")) trouble.push(`a request to ${request.url()}`);
  });
  await page.goto(url);
  const charts = await page.locator(".chart").all();
  for (const chart of charts) {
    await chart.scrollIntoViewIfNeeded();
    await chart.and(page.locator("[data-drawn]")).waitFor();
  }
  return { page, charts, trouble, close: () => context.close() };
}

/** The number of pixels of a canvas that are not transparent. */
const ink = (chart) => chart.locator("canvas").first().evaluate((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 3; at < data.length; at += 4) count += data[at] > 0;
  return count;
});
const pixels = (chart) => chart.locator("canvas").first().evaluate((canvas) => canvas.toDataURL());

for (const [name, figures] of [["comparison.html", 6], ["sweep.html", 2]]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name} shows all its figures, ${colorScheme}`, async () => {
      const { page, charts, trouble, close } = await open(name, { colorScheme });
      assert.equal(await page.locator(".figure[id]").count(), figures);
      for (const chart of charts) assert.ok((await ink(chart)) > 1000, await chart.getAttribute("aria-label"));
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), colorScheme);
      assert.ok((await page.locator(".verdict p").first().innerText()).length > 20);
      assert.deepEqual(trouble, []);
      await close();
    });
  }
}

test("the legend takes a contender out of the figures and brings it back", async () => {
  const { page, charts, trouble, close } = await open("comparison.html");
  const before = await pixels(charts[0]);
  const toggle = page.locator(".legend button", { hasText: "min_rtt" });
  await toggle.click();
  assert.equal(await toggle.getAttribute("aria-pressed"), "false");
  assert.notEqual(await pixels(charts[0]), before);
  await toggle.click();
  assert.equal(await pixels(charts[0]), before);
  assert.deepEqual(trouble, []);
  await close();
});

test("dragging zooms, and a double click shows everything again", async () => {
  const { page, trouble, close } = await open("comparison.html");
  const chart = page.locator("#f1-cdf .chart").first();
  await chart.scrollIntoViewIfNeeded();
  const before = await pixels(chart);
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + 150, box.y + 150);
  await page.mouse.down();
  await page.mouse.move(box.x + 250, box.y + 160, { steps: 4 });
  await page.mouse.up();
  const [low, high] = (await chart.getAttribute("data-zoom")).split(" ").map(Number);
  assert.ok(low > 0 && high > low && high < 60, `${low} to ${high}`);
  await page.mouse.move(5, 5);
  assert.notEqual(await pixels(chart), before);
  await chart.dblclick({ position: { x: 200, y: 100 } });
  assert.equal(await chart.getAttribute("data-zoom"), null);
  assert.deepEqual(trouble, []);
  await close();
});

test("hovering shows exact values, and the table behind a figure has the comparison's numbers", async () => {
  const { page, trouble, close } = await open("comparison.html");
  const result = JSON.parse(readFileSync(file("phone.json"), "utf8"));
  const figure = page.locator("#f1-cdf");
  const box = await figure.locator(".chart").first().boundingBox();
  await figure.scrollIntoViewIfNeeded();
  const at = await figure.locator(".chart").first().boundingBox();
  await page.mouse.move(at.x + box.width / 2, at.y + 150);
  await page.locator(".tip", { hasText: "within" }).waitFor();
  await page.locator("#f1-completion summary").click();
  const first = page.locator("#f1-completion tbody tr").first();
  assert.equal(await first.locator("td").nth(4).innerText(), String(result.rows[0].fct_s.mean));
  assert.deepEqual(trouble, []);
  await close();
});

test("the switch changes the theme", async () => {
  const { page, charts, close } = await open("sweep.html", { colorScheme: "light" });
  const before = await pixels(charts[0]);
  for (const theme of ["light", "dark"]) {
    await page.locator("button.theme").click();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
  }
  assert.notEqual(await pixels(charts[0]), before);
  await close();
});

test("a partial sweep says so, and a complete one does not", async () => {
  for (const [name, is] of [["partial.html", true], ["sweep.html", false]]) {
    const { page, trouble, close } = await open(name);
    assert.equal((await page.locator(".warning", { hasText: "Partial: 4 of 6 points" }).count()) > 0, is);
    assert.deepEqual(trouble, []);
    await close();
  }
});

test("names are text, whatever they contain", async () => {
  const { page, charts, trouble, close } = await open("hostile.html");
  assert.ok(charts.length > 5);
  for (const chart of charts) assert.ok((await ink(chart)) > 1000);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await page.locator("img").count(), 0);
  const shown = await page.locator(".legend button").evaluateAll((buttons) => buttons.map((button) => button.title));
  assert.deepEqual(shown, HOSTILE.slice(0, 4));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `the page is ${wide} px too wide`);
  for (const chart of charts) await chart.hover({ position: { x: 300, y: 40 } });
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.deepEqual(trouble, []);
  await close();
});
