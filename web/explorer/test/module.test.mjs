// The committed module against the command: the same objects to the last digit, and the same sentences. A module of other sources
// is found here as soon as one number, name or sentence differs; `npm run module` in web/report builds it again.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { anabranch, attempt, command, load, place, source } from "./tools.mjs";

let module;
let lists;
const { Film, FATE, KIND } = await source("../src/film.ts");
const { FIRST, fromFragment, toCommand, toFragment, toPython, toToml } = await source("../src/state.ts");
const { keys, RUNS, toSweep, values } = await source("../src/axes.ts");
const { STEPS } = await source("../src/tour.ts");
const { PRESETS } = await source("../src/lists.ts");
before(async () => {
  module = await load();
  lists = JSON.parse(module.answer({ verb: "list" }));
});
after(() => rmSync(place, { recursive: true, force: true }));

/** The values that belong to a machine and not to a result: the build, the command line and the cost. */
const OF_MACHINE = ["commit", "command", "wall_s", "peak_rss_bytes"];

/** The first place where the command does not have what the module has; null if there is none. Keys that are newer than the module do
 * not count. */
function difference(ours, theirs, place) {
  if (ours === null || typeof ours !== "object") return Object.is(ours, theirs) ? null : `${place}\n  module:  ${ours}\n  command: ${JSON.stringify(theirs)}`;
  if (theirs === null || typeof theirs !== "object") return `${place}: the command has ${theirs}`;
  if (Array.isArray(ours) && ours.length !== theirs.length) return `${place}: ${ours.length} in the module, ${theirs.length} of the command`;
  for (const key of Object.keys(ours)) {
    const found = OF_MACHINE.includes(key) ? null : difference(ours[key], theirs[key], `${place}.${key}`);
    if (found) return found;
  }
  return null;
}

/** Fails if two answers, texts of JSON, differ. Numbers of JSON are doubles, and are compared in all their digits. */
function same(ours, theirs, about) {
  const found = difference(JSON.parse(ours), JSON.parse(theirs), about);
  if (found) assert.fail(`${found}\nIf the command is right: npm --prefix web/report run module`);
}

const TRACE = Array.from({ length: 400 }, (_, at) => Math.floor(at * 1.7 + 3 * Math.sin(at))).map((time) => Math.max(1, time)).sort((a, b) => a - b).join("\n") + "\n";

/** Scenarios of all kinds: each scheduler and congestion control occurs. */
function* scenarios() {
  const schedulers = lists.schedulers.map((item) => item.name).filter((name) => !name.includes("@"));
  const controls = lists.congestion.map((item) => item.name);
  const links = [
    'rate = "40 Mbit/s"\nrtt = "20 ms"\njitter = "2 ms"',
    'rate = "6 Mbit/s"\nrtt = "55 ms"\nloss = "1%"\nqueue = "200 ms"',
    'rate = { down = "12 Mbit/s", up = "1 Mbit/s" }\nrtt = "629 ms"',
    'rate = "90 Mbit/s"\nrtt = "7 ms"\ngilbert-elliott = { mean-good = "300 ms", mean-bad = "20 ms", loss-bad = "40%" }',
    'trace = "made.up"\nrtt = "30 ms"\nqueue = "60 packets"',
    'rate = "3 Mbit/s"\nrtt = "90 ms"\nreorder = { probability = "3%", extra = "8 ms" }\nduplicate = "1%"',
    'rate = "20 Mbit/s"\nrtt = "33 ms"\nqueue = "1 BDP"\nloss = "0.3%"\nloss-up = "2%"',
  ];
  const traffics = [
    '[traffic]\nsize = "57 KB"\nflows = 3',
    '[traffic]\nsize = "web"\nflows = 4\ndirection = "upload"',
    '[traffic]\nsize = "400 KB"\ndirection = "download"',
    '[traffic]\nsize = "bulk"\nduration = "1 s"',
    '[traffic]\nsize = "20 KB"\nflows = 6\nload = "30%"',
  ];
  for (let at = 0; at < 50; at += 1) {
    const some = [0, 1].map((next) => schedulers[(2 * at + next) % schedulers.length]);
    const paths = Array.from({ length: 2 + (at % 3) }, (_, next) => `[[path]]\nname = "p${next}"\n${links[(at + 3 * next) % links.length]}\n`);
    yield [
      `schedulers = [${[...new Set(["tcp", ...some])].map((name) => `"${name}"`).join(", ")}]`,
      `runs = ${1 + (at % 3)}`,
      `seed = ${1000 + at}`,
      ...(at % 2 ? [`congestion = "${controls[at % controls.length]}"`] : []),
      `profile = "${at % 5 === 4 ? "ns3" : "linux"}"`,
      ...(at % 7 === 3 ? ['initial = "best"'] : []),
      ...paths,
      traffics[at % traffics.length],
      ...(at % 4 === 1 ? ['[connection]\nreceive-buffer = "120 KB"'] : []),
    ].join("\n");
  }
}

test("50 scenarios have the same comparison to the last digit", () => {
  writeFileSync(join(place, "made.up"), TRACE);
  let number = 0;
  for (const text of scenarios()) {
    const name = `s${(number += 1)}.toml`;
    writeFileSync(join(place, name), text);
    const starts = number % 5 === 0;
    const { stdout, stderr, status } = attempt("compare", name, "--json", "--jobs", "1", ...(starts ? [] : ["--no-other-starts"]));
    // A flow may miss its deadline, which is a result too.
    assert.ok(stdout !== "", `${name}: ${status} ${stderr}\n${text}`);
    same(module.answer({ verb: "compare", name, text, files: { "made.up": TRACE }, other_starts: starts }), stdout, name);
  }
  assert.equal(number, 50);
});

test("runs, explanations and checks are the command's too", () => {
  for (const scenario of ["two-paths", "phone", "home"]) {
    const set = ["runs=2"];
    same(module.answer({ verb: "run", name: scenario, set }), anabranch("run", scenario, "--set", "runs=2", "--json"), `run ${scenario}`);
    same(module.answer({ verb: "check", name: scenario }), anabranch("check", scenario, "--json"), `check ${scenario}`);
  }
  const set = ["runs=2", "traffic.size=100 KB"];
  const words = ["explain", "two-paths", "--json", ...set.flatMap((one) => ["--set", one])];
  same(module.answer({ verb: "explain", name: "two-paths", set, changes: true }), anabranch(...words), "explain");
});

test("a film is the run of the comparison", () => {
  const text = '[[path]]\nrate = "20 Mbit/s"\nrtt = "20 ms"\nloss = "1%"\n[[path]]\nrate = "5 Mbit/s"\nrtt = "90 ms"\nqueue = "40 ms"\n[traffic]\nsize = "600 KB"\n';
  for (const direction of ["upload", "download"]) {
    const request = { name: "film.toml", text: `runs = 3\nschedulers = ["tcp", "min_rtt", "redundant"]\n${text}direction = "${direction}"\n` };
    const { rows } = JSON.parse(module.answer({ ...request, verb: "compare" }));
    for (const run of [0, 2]) {
      for (const data of JSON.parse(module.answer({ ...request, verb: "film", run }))) {
        const row = rows.find((row) => row.scheduler === data.scheduler);
        assert.equal(data.fct_ns / 1e9, row.by_run.fct_s[run], `${data.scheduler} ${run}`);
        const film = new Film(data);
        const { t_ns, departed_ns, end_ns, fate, kind, way, from, to } = film.packets;
        let [retransmitted, dropped] = [0, 0];
        for (let at = 0; at < t_ns.length; at += 1) {
          assert.ok(end_ns[at] < 0 || end_ns[at] >= t_ns[at], "a packet ends after it has begun");
          assert.ok(departed_ns[at] < 0 || (departed_ns[at] >= t_ns[at] && departed_ns[at] <= end_ns[at]), "it departs between");
          if (kind[at] === KIND.retransmitted) retransmitted += 1;
          if (fate[at] === FATE.lost || fate[at] === FATE.droppedByQueue) dropped += 1;
          if (way[at] === 1) assert.equal(to[at] - from[at], 0);
        }
        assert.ok(retransmitted > 0 && dropped > 0, `${data.scheduler}: ${retransmitted} retransmissions, ${dropped} dropped`);
        film.receiver.seek(film.end);
        assert.deepEqual([film.receiver.delivered, film.receiver.parts], [600_000, []]);
        // Backwards, and forwards in steps.
        const at = (t) => (film.receiver.seek(t), [film.receiver.delivered, JSON.stringify(film.receiver.parts)]);
        const steps = Array.from({ length: 40 }, (_, step) => film.begin + (step * (film.end - film.begin)) / 40);
        const forwards = steps.map(at);
        assert.deepEqual(steps.toReversed().map(at).reverse(), forwards);
        assert.ok(data.scheduler === "tcp" || forwards.some(([, parts]) => parts !== "[]"), "some data wait behind a hole");
        assert.ok(film.ackAt(film.end).ack <= 600_001 && film.decisionAt(film.end).length > 10);
        // The same run has as many packets as the counters of its links.
        if (data.scheduler !== "tcp") assert.deepEqual(data.subflows.toSorted(), [0, 1]);
      }
    }
  }
});

test("each point of a map is a point of the sweep that the page prints", () => {
  const fragment = "path=a,rate=20,rtt=20,jitter=1&path=b,rate=5,back=0.05,rtt=30,loss=0.5&path=c,rate=8,back=8,rtt=40&size=200&schedulers=tcp,redundant&buffer=300";
  for (const direction of ["download", "upload"]) {
    const state = { ...fromFragment(fragment), direction };
    writeFileSync(join(place, "explorer.toml"), toToml(state));
    // The rates are all that depends on the direction.
    for (const key of keys(state).filter((key) => direction === "download" || key.name.includes(".rate"))) {
      const some = [values(key, state)[0], values(key, state).at(-1)];
      rmSync(join(place, "map"), { recursive: true, force: true });
      const sweep = spawnSync("bash", ["-c", `"$0" -q ${toSweep("tcp", [[key, some]])} -o map`, command], { cwd: place, encoding: "utf8" });
      assert.equal(sweep.status, 0, sweep.stderr);
      const points = readFileSync(join(place, "map/journal.ndjson"), "utf8").trim().split("\n").slice(1).map((line) => JSON.parse(line));
      assert.equal(points.length, 2);
      for (const { point, rows } of points) {
        const varied = structuredClone(state);
        key.set(varied, some[point]);
        const answer = JSON.parse(module.answer({ verb: "point", name: "explorer.toml", text: toToml(varied, RUNS, "tcp"), point }));
        assert.equal(difference(answer.rows, rows, `${key.name}=${some[point]}, ${direction}`), null);
      }
    }
  }
});

test("the sentences of the tour hold", () => {
  assert.equal(STEPS.length, 10);
  for (const [at, { title, state, claims }] of STEPS.entries()) {
    for (const claim of [...claims, null]) {
      const own = fromFragment(claim?.state ?? state);
      const { rows, error } = JSON.parse(module.answer({ verb: "compare", name: "tour.toml", text: toToml(own) }));
      assert.equal(error, undefined, title);
      if (!claim) continue;
      const mean = (name) => rows.find((row) => row.scheduler === name).fct_s.mean;
      const ratio = mean(claim.of) / mean(claim.to);
      assert.ok(ratio >= claim.least && ratio <= claim.most, `step ${at + 1}, ${title}: ${claim.of} takes ${ratio.toFixed(3)} of ${claim.to}`);
      const second = (name) => rows.find((row) => row.scheduler === name).bytes_by_path[1];
      if (at === 1) assert.equal(second("min_rtt"), 0, "the second path carries nothing");
      if (at === 5 && !claim.state) assert.equal(second("blest"), 0, "blest leaves the slow path idle");
    }
  }
});

test("the slow path of the tour drops a third of its packets", async () => {
  const [, { packets }] = JSON.parse(module.answer({ verb: "film", name: "tour.toml", text: toToml(fromFragment(STEPS[2].state)), run: 0 })).map((data) => new Film(data));
  const sent = [...packets.path.keys()].filter((at) => packets.path[at] === 1 && packets.way[at] === 0 && packets.kind[at] === KIND.sent);
  const dropped = sent.filter((at) => packets.fate[at] === FATE.droppedByQueue);
  assert.ok(Math.abs(dropped.length / sent.length - 1 / 3) < 0.08, `${dropped.length} of ${sent.length}`);
});

test("an address restores each preset, and all its flows end", () => {
  for (const preset of PRESETS) {
    const state = { ...FIRST, ...preset.state(lists), runs: 2 };
    assert.deepEqual(fromFragment(toFragment(state)), state, preset.name);
    const { error, verdict } = JSON.parse(module.answer({ verb: "compare", name: "preset.toml", text: toToml(state) }));
    assert.equal(error, undefined, preset.name);
    assert.doesNotMatch(verdict, /did not end/, preset.name);
  }
});

test("names are the command's", () => {
  // A name that is newer than the module is missing on the page until the module is built again; none is on the page only.
  for (const [list, items] of Object.entries(lists)) {
    const known = JSON.parse(anabranch("list", list, "--json")).map((item) => item.name);
    assert.deepEqual(items.map((item) => item.name).filter((name) => !known.includes(name)), [], list);
    assert.ok(items.length > 1, list);
  }
  assert.deepEqual(lists.presets, JSON.parse(anabranch("list", "presets", "--json")));
});

test("errors are the command's sentences", () => {
  const paths = '[[path]]\nrate = "1 Mbit/s"\nrtt = "10 ms"\n[[path]]\nrate = "1 Mbit/s"\nrtt = "10 ms"\n';
  const wrong = [
    `schedulers = ["min_rtx"]\n${paths}`,
    `schedulers = ["tcp"]\n${paths.replace("1 Mbit/s", "1 Mbit")}`,
    `schedulers = ["tcp"\n${paths}`,
    `schedulers = ["tcp"]\n${paths.replace('rate = "1 Mbit/s"', 'trace = "missing"')}`,
    `schedulers = ["tcp"]\n${paths}[traffic]\nsize = "1 KB"\n[connection]\nrto.min = "-1 ms"\n`,
    "",
  ];
  for (const [at, text] of wrong.entries()) {
    const name = `wrong${at}.toml`;
    writeFileSync(join(place, name), text);
    const { stderr, status } = attempt("check", name);
    assert.equal(status, 2, name);
    assert.equal(JSON.parse(module.answer({ verb: "check", name, text })).error, stderr.replace(/^error: /, "").trimEnd());
  }
  assert.match(JSON.parse(module.answer({ verb: "dance" })).error, /request is not valid/);
});

test("the command, the file and the address have the numbers of the page", () => {
  const fragments = [
    "",
    "path=wifi,rate=7,rtt=20,loss=0.5,queue=30,jitter=3&path=lte,rate=12,back=2,rtt=60,queue=200&size=200&schedulers=tcp,blest&runs=3&buffer=90&initial=lte",
    // Names that a shell, TOML or a command could take for something else, and a trace.
    "path=--help,rate=9&path=-1,rate=8,rtt=20&path=__proto__,rate=4&path=best,rate=2.345678&size=123.456&schedulers=tcp@--help,min_rtt&runs=3&seed=0&initial=-1",
    "path=a_b,rate=5,rtt=30&path=tcp,rate=3,back=0.01,loss=0.000001&size=50&schedulers=tcp@tcp,tcp,redundant&buffer=1.5&seed=9007199254740991&trace=made.up",
    "path=a,rate=1.5,rtt=9,queue=10&path=b,rate=3,back=1,rtt=90,queue=100&path=c,rate=2,rtt=33,queue=50&size=40&direction=upload&schedulers=tcp@b,min_rtt&runs=4&cc=lia&profile=ns3&seed=9&initial=best",
  ];
  for (const fragment of fragments) {
    const state = { ...fromFragment(fragment), runs: 3 };
    assert.deepEqual(fromFragment(toFragment(state)), state);
    if (fragment.endsWith("trace=made.up")) state.paths[0].trace = "made.up";
    const shown = module.answer({ verb: "compare", name: "explorer.toml", text: toToml(state), files: { "made.up": TRACE }, other_starts: true });
    // As a shell reads it.
    const { stdout } = spawnSync("bash", ["-c", `${toCommand(state).replace("anabranch", '"$0" -q')} --json`, command], { cwd: place, encoding: "utf8", maxBuffer: 1 << 28 });
    same(shown, stdout, fragment);
    writeFileSync(join(place, "explorer.toml"), toToml(state));
    same(shown, attempt("compare", "explorer.toml", "--json").stdout, fragment);
    // Python reads the same file: no character of it means something else in a text of Python.
    assert.ok(toPython(state).includes(`"""\n${toToml(state)}"""`) && !/[\\]|"""/.test(toToml(state)), fragment);
  }
  // Nonsense is a state too.
  const wild = ["path=<b>,rate=x,rtt=-1", "runs=1e99&size=NaN", "schedulers=,,&path=a&path=a", "%%%", "path=a,rate=1e-9,rtt=1e-9,loss=1e-9,queue=1e-9,jitter=1e-9,back=1e-9",
    "path=a,rate=0.12345678901234567,back=1e-7,loss=0.00000012", "size=1.0000001&buffer=1e-7", "buffer=0.5&seed=-1", "seed=1e99&runs=0.4", "path=best&path=b&initial=best",
    "path=%00&path=%F0%9F%98%80&path=a%2Cb", "path=1&path=1-2&path=1", "initial=__proto__"];
  for (const text of wild) {
    assert.deepEqual(fromFragment(toFragment(fromFragment(text))), fromFragment(text), text);
    const answer = JSON.parse(module.answer({ verb: "check", name: "explorer.toml", text: toToml(fromFragment(text)) }));
    assert.equal(answer.error, undefined, text);
  }
});

// What a fixed computation takes on this machine at this moment: other work slows both down.
function fixedLoop() {
  const table = new Int32Array(1 << 14);
  let x = 1;
  for (let i = 0; i < 60_000_000; i += 1) {
    x = (Math.imul(x, 1_664_525) + 1_013_904_223) | 0;
    table[x >>> 18] += i;
  }
  return table[0];
}

test("three schedulers, ten runs of 1 MB take less than twice the time of a fixed loop", () => {
  const text = readFileSync(new URL("speed.toml", import.meta.url), "utf8");
  const timed = (work) => {
    const begun = performance.now();
    work();
    return performance.now() - begun;
  };
  const compare = () => assert.equal(JSON.parse(module.answer({ verb: "compare", name: "speed.toml", text })).runs, 10);
  const times = Array.from({ length: 9 }, () => [timed(compare), timed(fixedLoop)]);
  const shown = (at) => times.map((pair) => pair[at].toFixed(0)).join(", ");
  console.log(`comparison of 3 schedulers, 10 runs of 1 MB: ${shown(0)} ms; the loop: ${shown(1)} ms`);
  const [ours, loop] = [0, 1].map((at) => Math.min(...times.map((pair) => pair[at])));
  assert.ok(ours < 2 * loop, `${ours} ms and ${loop} ms`);
});

test("the module is below 1.5 MB compressed", () => {
  assert.ok(statSync(new URL("../dist/anabranch.wasm.gz", import.meta.url)).size < 1_500_000);
});
