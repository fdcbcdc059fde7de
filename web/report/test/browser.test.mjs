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

const EVENTS = 1_000_000;

const HOSTILE = [
  "</script><script>window.broken = 1</script>",
  "=1+1",
  "<img src=x onerror='window.broken = 1'>",
  "\"quotes\" & 'more' {a|b} {c}",
  "\u05e9\u05dc\u05d5\u05dd \u202eright to left",
  `long ${"name ".repeat(60)}`,
];

/** Five kinds of traffic over two paths, of which the first loses segments. */
const CLASSES = `
schedulers = ["tcp", "min_rtt", "blest"]
runs = 4
[[path]]
name = "wifi"
rate = "20 Mbit/s"
rtt = "20 ms"
loss = "0.5%"
[[path]]
name = "lte"
rate = "10 Mbit/s"
rtt = "60 ms"
[[traffic]]
name = "web"
kind = "requests"
size = { distribution = "exponential", mean = "30 KB" }
think = "300 ms"
duration = "3 s"
[[traffic]]
name = "film"
kind = "video"
bitrate = ["1 Mbit/s", "4 Mbit/s"]
segment = "1 s"
buffer = "4 s"
duration = "6 s"
[[traffic]]
name = "call"
kind = "udp"
path = "wifi"
size = "160 B"
gap = "20 ms"
duration = "3 s"
[[traffic]]
name = "photos"
size = "300 KB"
flows = 2
every = "1 s"
direction = "upload"
[[traffic]]
name = "backup"
size = "bulk"
duration = "3 s"
`;

let browser;
before(async () => {
  const run = (name, ...words) => writeFileSync(file(`${name}.json`), anabranch("compare", ...words, "--json"));
  run("phone", "phone", "--runs", "12", "--samples", "phone.csv");
  anabranch("report", "phone.json", "phone.csv", "-o", "comparison.html");
  writeFileSync(file("classes.toml"), CLASSES);
  run("classes", "classes.toml", "--samples", "classes.csv");
  anabranch("report", "classes.json", "classes.csv", "-o", "classes.html");
  const metered = ["--path", "20Mbit/s,20ms,name=wifi", "--path", "10Mbit/s,40ms,name=lte,price=2,quota=500KB"];
  run("metered", ...metered, "--size", "3MB", "--schedulers", "tcp,min_rtt", "--runs", "4");
  anabranch("report", "metered.json", "-o", "metered.html");
  anabranch("sweep", "classes.toml", "--vary", "path.wifi.rate=5Mbit/s,20Mbit/s", "--vary", "path.lte.rtt=20ms,60ms", "--runs", "2", "-o", "kinds");
  anabranch("report", "kinds", "-o", "kinds.html");
  anabranch("sweep", "two-paths", "--vary", "path.1.rate=5..50 Mbit/s:3:log", "--vary", "path.2.rtt=20ms,60ms", "--runs", "3", "-o", "grid");
  anabranch("report", "grid", "-o", "sweep.html");
  // Partial: without the last two points.
  const journal = readFileSync(file("grid/journal.ndjson"), "utf8").trimEnd().split("\n");
  writeFileSync(file("grid/journal.ndjson"), `${journal.slice(0, -2).join("\n")}\n`);
  anabranch("report", "grid", "-o", "partial.html");
  anabranch("sweep", "two-paths", "--vary", "traffic.direction=upload,download", "--runs", "2", "-o", "list");
  anabranch("report", "list", "-o", "list.html");
  const paths = ["--path", "20Mbit/s,20ms,name=wifi", "--path", "10Mbit/s,40ms,name=lte,loss=1%"];
  anabranch("run", ...paths, "--size", "300KB", "--flows", "3", "--schedulers", "min_rtt,redundant", "--record", "runs");
  anabranch("report", "runs", "-o", "recording.html");
  anabranch("report", "runs", "--flow", "3", "-o", "third.html");
  writeFileSync(file("silent.html"), silent(readFileSync(file("third.html"), "utf8")));
  const state = JSON.parse(readFileSync(file("runs/run.json"), "utf8"));
  writeFileSync(file("runs/run.json"), JSON.stringify({ ...state, complete: false, reason: "interrupted" }));
  rmSync(file("runs/redundant"), { recursive: true });
  anabranch("report", "runs", "-o", "interrupted.html");
  writeFileSync(file("million.html"), million(readFileSync(file("recording.html"), "utf8")));
  writeFileSync(file("explained.json"), anabranch("explain", "phone", "--runs", "2", "--json"));
  anabranch("report", "explained.json", "-o", "explanation.html");
  writeFileSync(file("unfinished.json"), unfinished(readFileSync(file("phone.json"), "utf8")));
  anabranch("report", "unfinished.json", "-o", "unfinished.html");
  writeFileSync(file("hostile.json"), hostile(readFileSync(file("phone.json"), "utf8")));
  anabranch("report", "hostile.json", "-o", "hostile.html");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  rmSync(place, { recursive: true, force: true });
});

/** A column as the page unpacks it: differences as LEB128 in zigzag form, in base 64. */
function pack(values) {
  const bytes = [];
  let last = 0;
  for (const value of values) {
    const difference = value - last;
    last = value;
    let rest = difference < 0 ? -2 * difference - 1 : 2 * difference;
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
    bytes.push(rest);
  }
  return Buffer.from(bytes).toString("base64");
}

/** The page with a million segments in the first run's first flow, of two subflows by turns, over 600 s. */
function million(page) {
  const [before, rest] = page.split('<script type="application/json" id="data">');
  const end = rest.indexOf("</script>");
  const data = JSON.parse(rest.slice(0, end));
  const run = data.inputs[0].runs[0];
  run.end_ns = 600e9;
  const each = (value) => pack(Array.from({ length: EVENTS }, (_, at) => value(at)));
  const [stream] = run.streams;
  stream.sent = { t_ns: each((at) => at * 600_000), from: each((at) => at * 1400), to: each((at) => (at + 1) * 1400),
    subflow: each((at) => at % 2), kind: each((at) => (at % 1000 ? 0 : 1)) };
  stream.acks = { t_ns: each((at) => at * 600_000), ack: each((at) => Math.max(0, at - 50) * 1400), edge: each((at) => (at + 100) * 1400) };
  run.streams = [stream];
  data.inputs[0].runs = [run];
  return `${before}<script type="application/json" id="data">${JSON.stringify(data)}${rest.slice(end)}`;
}

/** The page without the data of the first flow in the first run. */
function silent(page) {
  const [before, rest] = page.split('<script type="application/json" id="data">');
  const end = rest.indexOf("</script>");
  const data = JSON.parse(rest.slice(0, end));
  const [stream] = data.inputs[0].runs[0].streams;
  for (const columns of [stream.sent, stream.acks]) for (const key of Object.keys(columns)) columns[key] = "";
  stream.subflows = [];
  return `${before}<script type="application/json" id="data">${JSON.stringify(data)}${rest.slice(end)}`;
}

/** The comparison with times that differ by less than a thousandth, and with a flow of each contender that did not end. */
function unfinished(text) {
  const result = JSON.parse(text);
  for (const row of result.rows) {
    row.by_run.fct_s = row.by_run.fct_s.map((_, run) => 57.6 + run / 400);
    Object.assign(row.fct_s, { mean: 57.61, p50: 57.61, p95: 57.62, p99: 57.62, ci95: [57.59, 57.64] });
    row.completed = row.n - 1;
    row.vs_reference_pct = null;
  }
  return JSON.stringify(result);
}

/** The texts of a chart, from its SVG. */
async function texts(page, figure) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(figure).getByRole("button", { name: "SVG" }).first().click()]);
  const svg = readFileSync(await download.path(), "utf8");
  return [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map((found) => found[1]);
}

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

for (const [name, figures] of [["comparison.html", 6], ["classes.html", 21], ["sweep.html", 2], ["kinds.html", 2], ["recording.html", 9], ["explanation.html", 1]]) {
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

test("paths with a price or a quota have a table with their data and its cost, as the command prints it", async () => {
  const { page, trouble, close } = await open("metered.html");
  const cells = (row) => page.locator(`#f1-usage tbody tr:nth-child(${row}) td`).allInnerTexts();
  assert.deepEqual(await page.locator("#f1-usage th").allInnerTexts(), ["contender", "path", "up MB", "down MB", "cost", "quota"]);
  const usage = JSON.parse(readFileSync(file("metered.json"), "utf8")).usage.filter((row) => row.scheduler === "min_rtt");
  const [wifi, lte, all] = [await cells(4), await cells(5), await cells(6)];
  assert.deepEqual([wifi[1], wifi[4], wifi[5]], ["wifi", "0", "none"]);
  assert.deepEqual([lte[0], lte[1], lte[5]], ["min_rtt", "lte", "exceeded in 4 of 4 runs"]);
  assert.ok(Math.abs(Number(lte[3]) / (usage[1].down_bytes / 1e6) - 1) < 0.005, lte.join());
  assert.ok(Math.abs(Number(lte[4]) / usage[1].cost - 1) < 0.005, lte.join());
  assert.equal(all[1], "all");
  assert.ok(Math.abs(Number(all[3]) / ((usage[0].down_bytes + usage[1].down_bytes) / 1e6) - 1) < 0.005, all.join());
  assert.deepEqual(trouble, []);
  await close();
  const { page: other, close: done } = await open("comparison.html");
  assert.equal(await other.locator("#f1-usage").count(), 0);
  await done();
});

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

test("the legend takes a subflow and a contender out of the figures of a recording", async () => {
  const { page, trouble, close } = await open("recording.html");
  const chart = page.locator("#f1-sequence .chart").first();
  const before = await pixels(chart);
  for (const name of ["wifi", "min_rtt"]) {
    const toggle = page.locator(`.legend button[title="${name}"]`);
    await toggle.click();
    assert.equal(await toggle.getAttribute("aria-pressed"), "false");
    assert.notEqual(await pixels(chart), before, name);
    await toggle.click();
    assert.equal(await pixels(chart), before, name);
  }
  assert.deepEqual(trouble, []);
  await close();
});

test("another flow of a recording is in all its figures", async () => {
  const { page, trouble, close } = await open("recording.html");
  const chart = page.locator("#f1-cwnd .chart").first();
  const before = await pixels(chart);
  const select = page.locator("#f1-sequence select");
  assert.equal(await select.locator("option").count(), 3);
  await select.selectOption({ index: 1 });
  assert.equal(await page.locator("#f1-cwnd select").evaluate((element) => element.selectedIndex), 1);
  await chart.scrollIntoViewIfNeeded();
  await chart.and(page.locator("[data-drawn]")).waitFor();
  assert.notEqual(await pixels(chart), before);
  assert.deepEqual(trouble, []);
  await close();
});

test("the page begins with the flow that was asked for, and says which run has no data of it", async () => {
  const third = await open("third.html");
  const titles = async (page) => page.locator("#f1-sequence h4").allInnerTexts();
  for (const title of await titles(third.page)) assert.match(title, /flow 3 of 3$/);
  assert.equal(await third.page.locator("#f1-sequence select").first().evaluate((select) => select.selectedOptions[0].textContent), "3");
  assert.deepEqual(third.trouble, []);
  await third.close();
  const none = await open("silent.html");
  const [first, second] = await titles(none.page);
  assert.match(first, /flow 3 sent no data in this run$/);
  assert.match(second, /flow 3 of 3$/);
  assert.deepEqual(none.trouble, []);
  await none.close();
});

test("flows that did not end leave no empty figure, and labels of an axis tell times apart that differ little", async () => {
  const { page, trouble, close } = await open("unfinished.html");
  assert.equal(await page.locator("#f1-difference").count(), 0);
  const all = await texts(page, "#f1-completion");
  assert.ok(all.some((text) => /, 11 of 12$/.test(text)), all.join("; "));
  const times = all.filter((text) => /^[\d.]+ s$/.test(text));
  assert.ok(times.length > 3 && new Set(times).size === times.length, times.join("; "));
  assert.deepEqual(trouble, []);
  await close();
});

test("print shows the legend and what was chosen", async () => {
  const { page, close } = await open("sweep.html");
  await page.emulateMedia({ media: "print" });
  for (const part of [".legend", "#f1-lines div.controls"]) assert.ok(await page.locator(part).isVisible(), part);
  for (const part of [".tools", ".theme", "details"]) assert.ok(!(await page.locator(part).first().isVisible()), part);
  await close();
});

test("the table of the time-sequence graph has every event of the recording", async () => {
  const { page, close } = await open("recording.html");
  await page.locator("#f1-sequence summary").click();
  // The table is made when it is opened.
  await page.locator("#f1-sequence td").first().waitFor();
  const names = await page.locator("#f1-sequence th").allInnerTexts();
  assert.deepEqual(names, ["condition", "contender", "t ns", "subflow", "event", "from byte", "to byte"]);
  const events = await page.locator("#f1-sequence tbody tr td:nth-child(5)").allInnerTexts();
  assert.ok(events.includes("sent") && events.includes("retransmitted"), [...new Set(events)].join());
  await close();
});

test("a recording that was interrupted says so", async () => {
  const { page, trouble, close } = await open("interrupted.html");
  assert.equal(await page.locator(".warning", { hasText: "Partial: this recording was interrupted" }).count(), 1);
  assert.equal(await page.locator(".warning", { hasText: "Without tables, so not shown: redundant" }).count(), 1);
  assert.deepEqual(trouble, []);
  await close();
});

test("a million events are drawn with points for the pixels in view alone, and zooming shows single ones", async () => {
  const { page, trouble, close } = await open("million.html");
  const chart = page.locator("#f1-sequence .chart").first();
  await chart.scrollIntoViewIfNeeded();
  const { width } = await chart.boundingBox();
  const points = async () => Number(await chart.getAttribute("data-points"));
  // Four points of each of two staircases, and a few lines of each subflow, in a column of pixels.
  const most = 14 * width;
  assert.ok((await points()) > width && (await points()) < most, `${await points()} points in ${width} pixels`);
  const client = await page.context().newCDPSession(page);
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  assert.ok(usedSize < 200e6, `${usedSize} bytes`);
  const whole = await pixels(chart);
  for (let round = 0; round < 5; round += 1) {
    const box = await chart.boundingBox();
    await page.mouse.move(box.x + 400, box.y + 150);
    await page.mouse.down();
    await page.mouse.move(box.x + 450, box.y + 160, { steps: 3 });
    await page.mouse.up();
    assert.ok((await points()) < most, `${await points()} points after zoom ${round + 1}`);
  }
  const [low, high] = (await chart.getAttribute("data-zoom")).split(" ").map(Number);
  // A segment each 0.6 ms, of which each is a line now.
  const segments = (high - low) / 0.0006;
  assert.ok(segments < 1000 && (await points()) > segments, `${await points()} points for ${segments} segments`);
  assert.notEqual(await pixels(chart), whole);
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

test("each class of a comparison has figures of its own, by the measure of its kind", async () => {
  const { page, trouble, close } = await open("classes.html");
  const { rows } = JSON.parse(readFileSync(file("classes.json"), "utf8"));
  const titles = await page.locator(".figure[id] h3").allInnerTexts();
  for (const title of ["web: Response times", "film: Waiting times", "film: Mean bitrates", "call: One-way delays", "photos: Completion times",
    "backup: Goodput, difference from tcp", "photos: Goodput in each run"]) assert.ok(titles.includes(title), `${title}: ${titles.join("; ")}`);
  for (const title of ["call: Bytes per path", "web: Goodput in each run", "backup: Completion times"]) assert.ok(!titles.includes(title), title);
  const axes = [["web", "response time of a request"], ["film", "waiting time of a video"], ["call", "one-way delay of a stream"]];
  for (const [traffic, axis] of axes) {
    const figure = page.locator(".figure[id]", { hasText: `${traffic}: ` }).filter({ hasText: "The box has the middle half" });
    const id = await figure.getAttribute("id");
    assert.ok((await texts(page, `#${id}`)).includes(axis), axis);
    await figure.locator("summary").click();
    await figure.locator("td").first().waitFor();
    const means = await figure.locator("tbody tr td:nth-child(6)").allInnerTexts();
    assert.deepEqual(means, rows.filter((row) => row.traffic === traffic).map((row) => String(row.fct_s.mean)), traffic);
  }
  // The first figure has all classes, and the tables of all figures have the class.
  assert.equal(titles[0], "All classes of traffic: difference from tcp");
  const trade = page.locator(".figure[id]").first();
  const marks = await texts(page, `#${await trade.getAttribute("id")}`);
  for (const one of ["min_rtt, web", "blest, photos"]) assert.ok(marks.includes(one), `${one}: ${marks.join("; ")}`);
  assert.ok(!marks.includes("min_rtt, backup"), "goodput has another direction");
  await trade.locator("summary").click();
  await trade.locator("td").first().waitFor();
  const cells = (column) => trade.locator(`tbody tr td:nth-child(${column})`).allInnerTexts();
  assert.deepEqual(await cells(1), rows.map((row) => row.traffic));
  assert.deepEqual(await cells(6), rows.map((row) => row.fct_s.mean === null ? "" : String(row.fct_s.mean)));
  const setting = await page.locator(".setting").innerText();
  assert.match(setting, /web \(requests\), film \(video\), call \(udp on wifi\), photos \(transfer\) and backup \(transfer\)/);
  assert.deepEqual(trouble, []);
  await close();
});

test("the figures of a sweep show the class of traffic that is chosen, and the verdict has a sentence for each", async () => {
  const { page, trouble, close } = await open("kinds.html");
  const points = readFileSync(file("kinds/journal.ndjson"), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line)).filter((one) => one.rows);
  const sentences = await page.locator(".verdict p:not(.warning)").allInnerTexts();
  for (const traffic of ["web", "film", "call", "photos", "backup"]) {
    const better = points.filter((point) => point.rows.some((row) => row.traffic === traffic && row.scheduler === "min_rtt" && row.reading === "better")).length;
    const sentence = sentences.find((text) => text.startsWith(`${traffic}: min_rtt, of 4 points: `));
    assert.ok(sentence, `${traffic}: ${sentences.join("; ")}`);
    assert.equal(Number(/(\d+) better/.exec(sentence)?.[1] ?? 0), better, sentence);
  }
  assert.equal(sentences.length, 10);
  // The cells of a map are the differences of the chosen class.
  const cells = async () => (await texts(page, "#f1-map")).filter((text) => /%|[+\u2212]\d/.test(text)).map((text) => text.replace(" ?", ""));
  const select = page.locator("#f1-map label", { hasText: "Traffic" }).locator("select");
  for (const traffic of ["web", "photos", "backup"]) {
    await select.selectOption({ label: traffic });
    assert.match(await page.locator("#f1-map h4").first().innerText(), new RegExp(`^${traffic}: `));
    const expected = points.map((point) => point.rows.find((row) => row.traffic === traffic && row.scheduler === "min_rtt").vs_reference_pct.mean);
    const written = expected.map((value) => `${value >= 0 ? "+" : "\u2212"}${Math.abs(value) >= 99.95 ? Math.abs(value).toFixed(0) : Math.abs(value).toFixed(1)}`);
    const shown = await cells();
    for (const value of written) assert.ok(shown.includes(value), `${traffic}: ${value} is not in ${shown.join("; ")}`);
  }
  // The measures are those of the class.
  const measures = async () => page.locator("#f1-lines label", { hasText: "Show" }).locator("option").allInnerTexts();
  const traffic = page.locator("#f1-lines label", { hasText: "Traffic" }).locator("select");
  assert.ok((await measures()).includes("mean response time"));
  await traffic.selectOption({ label: "film" });
  assert.deepEqual(await measures(), ["difference from tcp, %", "mean waiting time", "time in stalls, mean", "mean bitrate"]);
  await traffic.selectOption({ label: "call" });
  assert.deepEqual(await measures(), ["difference from tcp, %", "mean one-way delay", "datagrams lost, %"]);
  assert.deepEqual(trouble, []);
  await close();
});

test("the axis of a sweep over a list has the name of every value", async () => {
  const { page, trouble, close } = await open("list.html");
  const all = await texts(page, "#f1-lines");
  for (const name of ["upload", "download"]) assert.equal(all.filter((text) => text === name).length, 1, `${name}: ${all.join("; ")}`);
  assert.deepEqual(trouble, []);
  await close();
});

test("a saved table has no cell that a spreadsheet runs", async () => {
  const { page, close } = await open("hostile.html");
  const figure = page.locator("#f1-completion");
  const [download] = await Promise.all([page.waitForEvent("download"), figure.getByRole("button", { name: "Save CSV" }).click()]);
  const lines = readFileSync(await download.path(), "utf8");
  assert.doesNotMatch(lines, /(^|,|\n)"?[=+@]/);
  assert.match(lines, /'=1\+1/);
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
  assert.deepEqual(shown, HOSTILE.slice(0, 5));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `the page is ${wide} px too wide`);
  for (const chart of charts) await chart.hover({ position: { x: 300, y: 40 } });
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.deepEqual(trouble, []);
  await close();
});
