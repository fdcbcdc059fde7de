// The page in a real browser: ANABRANCH is the command, CHROMIUM the browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { anabranch, attempt, command, place, require } from "./tools.mjs";

const { chromium } = require("playwright-core");
const LOOK = "wait for a state of the page";

let browser;
before(async () => {
  anabranch("explore", "-o", "explorer.html");
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  rmSync(place, { recursive: true, force: true });
});

/** Opens the page, and fails if it reports an error or asks for anything. `body` is given the page. */
async function visit(fragment, options, body) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, offline: true, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => {
    if (!/^(file|blob|data):/.test(request.url())) faults.push(`request ${request.url()}`);
  });
  await page.goto(`${pathToFileURL(join(place, "explorer.html"))}${fragment}`);
  await body(page);
  assert.deepEqual(faults, []);
  await context.close();
}

const SMALL = "#path=wifi,rate=20,rtt=20,queue=100&path=lte,rate=10,rtt=60,queue=100&size=100&schedulers=tcp,min_rtt,blest&runs=4";

/** Waits for the last round, which has `runs` runs. */
const done = (page, runs) => page.waitForSelector(`.result:not(.busy)[data-runs="${runs}"]`, { timeout: 60_000, state: "attached" }).catch(() => assert.fail(LOOK));
/** The mean times of the contenders, from the label of the figure. */
const means = (page) => page.getAttribute("#f-completion .chart", "aria-label");
const slide = (page, label, key) => page.locator(`fieldset.path >> nth=0`).getByRole("slider", { name: label }).press(key);

test("it opens from disk, and the numbers are the command's", async () => {
  await visit(SMALL, {}, async (page) => {
    await done(page, 4);
    const shown = await page.textContent(".verdict");
    const text = await page.inputValue("#share textarea");
    const words = text.replaceAll("\\\n", " ").split(/\s+/).slice(1).filter(Boolean);
    const { verdict } = JSON.parse(attempt(...words, "--json").stdout);
    assert.equal(shown, verdict.replaceAll("\n", ""));
  });
});

test("a slider changes the figures, with the keyboard too", async () => {
  await visit(SMALL, {}, async (page) => {
    await done(page, 4);
    const before = await means(page);
    await slide(page, "RTT", "ArrowRight");
    await page.waitForFunction((before) => document.querySelector("#f-completion .chart").getAttribute("aria-label") !== before, before);
    await done(page, 4);
    await page.waitForFunction(() => /rtt=25/.test(location.hash));
    // Many changes in a row, faster than their results, end with the last one.
    await page.locator("fieldset.path >> nth=0").getByRole("slider", { name: "Rate" }).evaluate((slider) => {
      for (let at = 0; at < 300; at += 1) {
        slider.value = String((7 * at) % 30);
        slider.dispatchEvent(new Event("input"));
      }
      slider.value = "11";
      slider.dispatchEvent(new Event("input"));
    });
    await page.waitForFunction(() => /rate=1\.2,/.test(location.hash));
    await done(page, 4);
    const shown = await page.textContent(".verdict");
    await page.reload();
    await done(page, 4);
    assert.equal(await page.textContent(".verdict"), shown);
  });
});

test("the address restores the state, and a new address shows another one", async () => {
  await visit(SMALL, {}, async (page) => {
    await done(page, 4);
    await page.waitForFunction(() => /seed=1/.test(location.hash));
    const fragment = new URL(page.url()).hash;
    assert.equal(fragment, SMALL.replace("&runs", "&profile=linux&runs").replace("size=100", "size=100&direction=download") + "&seed=1");
    await page.getByLabel("Direction").selectOption("upload");
    await page.getByRole("button", { name: "Add a path" }).click();
    await page.getByRole("checkbox", { name: "redundant" }).check();
    await page.getByLabel("First path").selectOption("lte");
    await page.getByLabel("Congestion").selectOption("lia");
    await page.waitForFunction(() => /cc=lia/.test(location.hash));
    await done(page, 4);
    const label = await means(page);
    assert.match(label, /redundant/);
    await page.reload();
    await done(page, 4);
    assert.equal(await means(page), label);
    assert.equal(await page.locator("fieldset.path").count(), 3);
    await page.evaluate((text) => (location.hash = text), SMALL.replace("min_rtt", "ecf"));
    const has = (name) => page.waitForFunction((name) => document.querySelector("#f-completion .chart").getAttribute("aria-label").includes(name), name);
    await has("ecf");
    await page.goBack();
    await has("redundant");
    await page.goForward();
    await has("ecf");
  });
});

test("nonsense in the address is a state, an error names what is wrong, and the next state is computed", async () => {
  for (const nonsense of ["#%%%", "#path=<img src=x>,rate=x,rtt=1e999,loss=-1&runs=1e9&size=1&schedulers=,,", `#${"path=a&".repeat(3000)}size=1`]) {
    await visit(nonsense, {}, async (page) => {
      await page.waitForSelector(".result:not(.busy)[data-runs]");
      assert.match(await page.textContent(".verdict"), /tcp/);
    });
  }
  // No flow ends within its deadline.
  await visit("#path=a,rate=0.1,rtt=1000,loss=20,queue=1&size=1000&runs=1&schedulers=tcp,min_rtt", {}, async (page) => {
    await done(page, 1);
    assert.match(await page.textContent(".verdict"), /did not end within the deadline/);
    await page.locator("#inside > summary").click();
    await page.waitForSelector('.stages[data-count="2"]');
    assert.match(await page.textContent(".stage h4"), /not done within the deadline/);
  });
  await visit(`${SMALL}&profile=nonsense`, {}, async (page) => {
    await page.getByRole("alert").filter({ hasText: "no profile called `nonsense`" }).waitFor();
    assert.ok(await page.locator(".result.failed").count(), "the figures of the state before are marked");
    // The next state comes while the first round of the wrong one is computed.
    await page.getByLabel("Hosts").evaluate((select) => {
      for (const value of ["nonsense", "linux"]) {
        if (value === "nonsense") select.append(new Option(value, value));
        select.value = value;
        select.dispatchEvent(new Event("change"));
      }
    });
    await done(page, 4);
    assert.equal(await page.locator(".result.failed").count(), 0);
  });
});

test("a preset, a wrong number and a wrong trace", async () => {
  await visit(SMALL, {}, async (page) => {
    await done(page, 4);
    await page.getByLabel("Preset").selectOption({ label: "Two DSL lines" });
    await page.waitForFunction(() => /dsl-2/.test(location.hash));
    await done(page, 30);
    await page.evaluate((text) => (location.hash = text), SMALL);
    await done(page, 4);
    const field = page.locator("fieldset.path >> nth=0").getByRole("spinbutton", { name: "Rate" });
    await field.fill("-3");
    assert.equal(await field.getAttribute("aria-invalid"), "true");
    await field.fill("7");
    await page.waitForFunction(() => /rate=7,/.test(location.hash));
    const trace = (name, text) => page.locator("input[type=file] >> nth=0").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
    await trace("wrong.txt", "no\nnumbers\n");
    await page.getByRole("alert").filter({ hasText: "cannot use the trace" }).waitFor();
    await page.getByRole("button", { name: /remove/ }).first().click();
    await done(page, 4);
    const before = await means(page);
    await trace("ten.txt", Array.from({ length: 100 }, (_, at) => at + 1).join("\n"));
    await page.waitForFunction((before) => document.querySelector("#f-completion .chart").getAttribute("aria-label") !== before, before);
    await done(page, 4);
    assert.match(await page.inputValue("#share textarea"), /trace=ten\.txt/);
    // Another file with the same name is another trace.
    const second = page.locator("fieldset.path >> nth=1").locator("input[type=file]");
    await second.setInputFiles({ name: "ten.txt", mimeType: "text/plain", buffer: Buffer.from("1\n2\n3\n") });
    await page.waitForFunction(() => /trace=2-ten\.txt/.test(document.querySelector("#share textarea").value));
    await done(page, 4);
    // A file of 100 MB is not taken, and the result stays.
    await page.getByRole("button", { name: /2-ten.txt: remove/ }).click();
    await done(page, 4);
    const label = await means(page);
    await page.evaluate(() => {
      const files = new DataTransfer();
      files.items.add(new File([new Uint8Array(100 << 20)], "huge.trace"));
      document.querySelectorAll("fieldset.path")[1].dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
    });
    await page.getByRole("alert").filter({ hasText: "huge.trace is larger than 20 MiB" }).waitFor();
    assert.equal(await means(page), label);
    await page.getByLabel("Direction").selectOption("upload");
    await page.waitForFunction(() => document.querySelector(".notice").textContent === "");
  });
});

test("the look inside plays, and ends with all data", async () => {
  // Upwards of 5000 packets in the film of each contender.
  await visit(`${SMALL.replace("size=100", "size=6000").replace("rate=20", "rate=60")}`, {}, async (page) => {
    await done(page, 4);
    await page.locator("#inside > summary").click();
    await page.waitForSelector('.stages[data-count="2"]');
    await page.getByRole("button", { name: "Play" }).click();
    // How many frames a second there are depends on the machine's other work; docs/explorer.md has the measurement.
    await page.waitForFunction(() => Number(document.querySelector(".stages").dataset.fps) > 0);
    const [fps, packets] = await page.locator(".stages").evaluate(({ dataset }) => [Number(dataset.fps), dataset.packets.split(" ").map(Number)]);
    console.log(`${fps} frames a second, ${packets.join(" and ")} packets`);
    assert.ok(packets.length === 2 && packets.every((count) => count > 5000), `${packets}`);
    await page.getByRole("button", { name: "Pause" }).click();
    const time = page.getByRole("slider", { name: "Time in the run" });
    await time.press("End");
    await page.waitForFunction(() => /6\.00 MB of 6\.00 MB in order, nothing waits/.test(document.querySelectorAll(".stage canvas")[1].getAttribute("aria-label")));
    await time.press("Home");
    await page.waitForFunction(() => /0 B of 6\.00 MB/.test(document.querySelectorAll(".stage canvas")[1].getAttribute("aria-label")));
    await page.waitForSelector("#e-causes");
  });
});

test("the tour goes through ten states, and its address restores a step", async () => {
  await visit(SMALL, {}, async (page) => {
    await done(page, 4);
    await page.getByRole("button", { name: "Tour" }).click();
    for (let step = 1; step <= 10; step += 1) {
      await page.getByRole("heading", { name: `${step} of 10` }).waitFor();
      await page.waitForFunction((step) => new RegExp(`tour=${step}$`).test(location.hash), step);
      if (step === 5) await page.waitForSelector('.stages[data-count="2"]');
      if (step === 5 || step === 7) await page.reload();
      // The address of a step opens its part of the page too.
      if (step === 5) await page.waitForSelector('.stages[data-count="2"]');
      if (step < 10) await page.getByRole("button", { name: "Next" }).click();
    }
    await done(page, 10);
    await page.getByRole("button", { name: "Compute the map" }).click();
    await page.waitForSelector('#map[data-points="49"] #m-map .chart[data-drawn]', { timeout: 60_000 });
    assert.match(await page.textContent("#map pre"), /anabranch sweep explorer\.toml .*--vary 'traffic\.size=125KB,250KB/s);
    // A map of another experiment says so.
    await page.getByLabel("Direction").selectOption("upload");
    await page.locator("#map").getByText("has changed since").waitFor();
    await page.getByRole("button", { name: "End the tour" }).click();
    await page.waitForFunction(() => !/tour/.test(location.hash));
    await page.evaluate(() => (location.hash = "#tour=3"));
    await page.waitForFunction(() => /path=fast,rate=10,.*tour=3$/.test(location.hash));
  });
});

test("it fits 360 pixels, in the dark, and every control has a name", async () => {
  await visit(SMALL, { viewport: { width: 360, height: 780 }, colorScheme: "dark" }, async (page) => {
    await done(page, 4);
    await page.locator("#inside > summary").click();
    await page.waitForSelector('.stages[data-count="2"]');
    assert.equal(await page.getAttribute("html", "data-theme"), "dark");
    const wide = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((element) => !element.closest(".scroll, .hidden")
      && element.getBoundingClientRect().right > innerWidth + 1).map((element) => element.outerHTML.slice(0, 90)));
    assert.deepEqual(wide, []);
    const nameless = await page.evaluate(() => [...document.querySelectorAll("input, select, button, textarea, canvas, summary")].filter((element) =>
      !([...(element.labels ?? [])].some((label) => label.textContent.replace(element.textContent, "").trim()) || element.getAttribute("aria-label") || (element.tagName !== "SELECT" && element.textContent.trim()) || element.parentElement.closest("[role=img][aria-label]"))).map((element) => element.outerHTML));
    assert.deepEqual(nameless, []);
    const small = await page.evaluate(() => [...document.querySelectorAll("button, select, input[type=range]")].filter((element) =>
      element.checkVisibility() && element.getBoundingClientRect().height < 16).map((element) => element.outerHTML));
    assert.deepEqual(small, []);
  });
});

test("the keyboard reaches every control, and a screen reader has the parts of the page and the verdict", async () => {
  await visit(SMALL, {}, async (page) => {
    await done(page, 4);
    await page.locator("#inside > summary").focus();
    await page.keyboard.press("Enter");
    await page.waitForSelector('.stages[data-count="2"]');
    await page.locator("#map > summary").press("Enter");
    // The controls that the Tab key has not reached.
    const unreached = () => page.evaluate(() => [...document.querySelectorAll("button, input, select, textarea, summary")]
      .filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility() && !("reached" in element.dataset)).map((element) => element.outerHTML));
    const most = (await unreached()).length + 20;
    let plays = false;
    await page.evaluate(() => document.activeElement.blur());
    for (let at = 0; at < most; at += 1) {
      await page.keyboard.press("Tab");
      const [name, outline] = await page.evaluate(() => {
        const { activeElement } = document;
        activeElement.dataset.reached = "";
        // After the last control the focus leaves the page.
        return activeElement === document.body ? ["", ""] : [activeElement.textContent, getComputedStyle(activeElement).outlineStyle];
      });
      assert.notEqual(outline, "none", `the focus on ${name.slice(0, 40)} is not visible`);
      if (name !== "Play") continue;
      await page.keyboard.press("Enter");
      plays = await page.getByRole("button", { name: "Pause" }).isVisible();
      await page.keyboard.press("Enter");
    }
    assert.deepEqual(await unreached(), []);
    assert.ok(plays, "Enter plays the run");
    for (const [role, name] of [["heading", "anabranch explorer"], ["form", "Paths, traffic and contenders"], ["group", "Path 1"], ["region", "Result"], ["slider", "RTT"],
      ["img", /^Packets from the server to the client: wifi/]]) {
      assert.ok(await page.getByRole(role, { name }).count(), `${role} ${name}`);
    }
    const [verdict] = (await page.locator(".verdict p").allTextContents());
    assert.equal(await page.locator(".result > [role=status]").textContent(), verdict);
  });
});

test("the command serves the page on the loopback address only", async () => {
  const server = spawn(command, ["explore", "--no-open"], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const address = await new Promise((resolve, reject) => {
      server.stdout.on("data", (text) => resolve(String(text).trim()));
      server.on("exit", (code) => reject(new Error(`it ended with ${code}`)));
    });
    assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/$/);
    const answer = await fetch(address);
    assert.equal(answer.status, 200);
    assert.equal((await answer.text()).length, statSync(join(place, "explorer.html")).size);
    assert.equal((await fetch(`${address}other`)).status, 404);
    assert.equal((await fetch(address, { method: "POST" })).status, 405);
    const port = new URL(address).port;
    const second = attempt("explore", "--no-open", "--port", port);
    assert.equal(second.status, 1);
    assert.match(second.stderr, /cannot listen on 127\.0\.0\.1:\d+: .*; without --port it takes a free one/);
    const page = await browser.newPage();
    await page.goto(address + SMALL);
    await done(page, 4);
    await page.close();
  } finally {
    server.kill();
  }
});
