// The page: verdicts, the legend, figures, and how to make it all again.

import { comparisonFigures } from "./comparison";
import type { Comparison, Input, PhaseLimits, Report } from "./results";
import { button, csv, el, name, save, type Table, table } from "./dom";
import { explanationFigures } from "./explanation";
import { Drawn, type Figure, type Scene } from "./figure";
import { count, list, pathName, rate, seconds, shell } from "./format";
import { hiddenSubflow, RecordingFigures } from "./recording";
import { SweepFigures } from "./sweep";
import { type Choice, styles, themeOf } from "./theme";
import { classes, hasGoodput } from "./traffic";
import { usageTable } from "./usage";

/** The version of the data that this page reads. */
const VERSION = 1;
const CHOICES: Choice[] = ["auto", "light", "dark"];

type Sweep = Extract<Input, { kind: "sweep" }>;
type Recording = Extract<Input, { kind: "recording" }>;

/** An input as the page shows it. */
interface Section {
  title: string;
  verdict: string[];
  warnings: string[];
  contenders: string[];
  /** The names of subflows that can be hidden. */
  subflows?: string[];
  figures: Figure[];
  /** The data of each path and its cost. */
  usage?: Table | null;
  setting: [string, string][];
  command: string | null;
}

function section(input: Input, at: number): Section {
  switch (input.kind) {
    case "comparison":
      return comparisonSection(input, at);
    case "sweep":
      return sweepSection(input, at);
    case "explanation":
      return explanationSection(input, at);
    case "recording":
      return recordingSection(input, at);
    default:
      return { title: (input as { file: string }).file, verdict: [], contenders: [], figures: [], setting: [], command: null,
        warnings: ["This page does not know this kind of result."] };
  }
}

const built = (version: string, commit: string | null): [string, string][] => [["anabranch", version], ["commit", commit ?? "unknown"]];

/** What a reader must know of the build. */
function dirty(commit: string | null): string[] {
  return commit?.endsWith("-dirty")
    ? ["The program was built from sources with changes that are not in its commit, so another build may give other numbers."]
    : [];
}

function comparisonSection(input: Extract<Input, { kind: "comparison" }>, at: number): Section {
  const result: Comparison = input.comparison;
  const traffics = classes(result.rows);
  const named = traffics.some((traffic) => traffic !== null);
  const incomplete = result.verdicts.filter((verdict) => verdict.outcome === "incomplete");
  const warnings = dirty(result.commit);
  const unfinished = [...new Set(incomplete.map((verdict) => verdict.traffic).filter((traffic) => traffic !== undefined))];
  if (incomplete.length) {
    warnings.unshift(`${unfinished.length ? `${list(unfinished)}: traffic` : "Flows"} did not finish before the deadline. ` +
      "Times below are of those that did, so they must not be compared.");
  }
  if (result.runs === 1) warnings.unshift("One run: there are no intervals, and nothing can be told apart.");
  return {
    title: result.conditions.length > 1 ? `Comparison under ${result.conditions.length} conditions` : "Comparison",
    // A line is a statement.
    verdict: [result.verdict, result.fairness_verdict].flatMap((text) => text?.split("\n") ?? []),
    warnings,
    contenders: [...new Set(result.rows.map((row) => row.scheduler))],
    figures: comparisonFigures(result, input.samples, `f${at + 1}`),
    usage: usageTable(result),
    setting: [
      ["file", input.samples ? `${input.file}, ${input.samples.file} (${count(input.samples.run.length)} ${named ? "rows" : "flows"})` : input.file],
      ...built(result.version, result.commit),
      ["scenario (SHA-256)", result.scenario_hash],
      ["seed", String(result.seed)],
      ["runs of each contender", `${result.runs} under each condition`],
      ["reference", result.reference ?? "none"],
      ["practically equal", `below ${result.min_effect_pct} %`],
      ...result.conditions.map((condition): [string, string] => [
        condition.name === "" ? "condition" : `condition ${condition.name}`,
        [
          `${named ? `${traffics[0]} is ${condition.direction === "upload" ? "an" : "a"} ` : ""}${condition.direction} over ${condition.paths.map((path, at) => `${pathName(path)} (queue ${condition.queues[at] ?? "unknown"})`).join(", ")}`,
          `profile ${condition.profile}`,
          `first path: ${condition.initial} (${condition.initial_choice})`,
          condition.ideal_sum_bps ? `all paths together ${rate(condition.ideal_sum_bps)} without headers` : "",
          phases(condition.phases),
        ].filter(Boolean).join("; "),
      ]),
      ...(named ? [["traffic", list(traffics.map((traffic) => traffic === null ? "" : classOf(result, traffic)))] as [string, string]] : []),
      ["congestion control", [...new Set(result.rows.filter((row) => row.transport === undefined || row.transport === "contender")
        .map((row) => `${row.scheduler}: ${row.congestion}`))].join(", ")],
    ],
    command: shell(result.command),
  };
}

/** A class of traffic in words. */
function classOf(result: Comparison, traffic: string): string {
  const row = result.rows.find((row) => row.traffic === traffic);
  const path = row?.path == null ? "" : ` on ${pathName(row.path)}`;
  const via = row?.transport === "tcp" ? ` by a plain TCP${path}` : row?.transport === "udp" ? path : "";
  return `${traffic} (${row?.kind}${via})`;
}

function phases(of: PhaseLimits | null): string {
  if (!of) return "no phases";
  const parts = Object.entries(of).filter(([, value]) => typeof value === "number" && value > 0)
    .map(([key, value]) => `${key.replace(/_s$/, "")} up to ${seconds(value as number)}`);
  return `phases drawn in each run: ${parts.join(", ")}`;
}

function sweepSection(sweep: Sweep, at: number): Section {
  const figures = new SweepFigures(sweep, `f${at + 1}`);
  const done = sweep.results.length;
  const warnings = dirty(sweep.commit);
  if (done < sweep.points) {
    warnings.unshift(`Partial: ${count(done)} of ${count(sweep.points)} points are done. The same \`anabranch sweep\` goes on with the others.`);
  }
  return {
    title: `Sweep over ${sweep.dimensions.map((dimension) => dimension.name).join(" and ")}`,
    verdict: figures.verdict(),
    warnings,
    contenders: figures.contenders,
    figures: figures.figures(),
    setting: [
      ["directory", sweep.file],
      ...built(sweep.version, sweep.commit),
      ["points", `${count(done)} of ${count(sweep.points)}, ${sweep.design}`],
      ["scenarios (SHA-256)", done === 1 ? (sweep.results[0]?.scenario_hash ?? "") : "one for each point: see the journal"],
      ["plan", sweep.plan],
    ],
    command: sweep.command ? shell(sweep.command) : null,
  };
}

function explanationSection({ file, explanation }: Extract<Input, { kind: "explanation" }>, at: number): Section {
  const conditions = new Set(explanation.rows.map((row) => row.condition));
  return {
    title: "Explanation",
    verdict: explanation.rows.map((row) => (conditions.size > 1 ? `${row.condition}: ${row.sentence}` : row.sentence)),
    warnings: dirty(explanation.commit),
    contenders: [...new Set(explanation.rows.map((row) => row.scheduler))],
    figures: explanationFigures(explanation, `f${at + 1}`),
    setting: [
      ["file", file],
      ...built(explanation.version, explanation.commit),
      ["scenario (SHA-256)", explanation.scenario_hash],
      ["seed", String(explanation.seed)],
      ["runs of each contender", `${explanation.runs} under each condition`],
      ["flow", explanation.flow === null ? "all" : String(explanation.flow)],
    ],
    command: shell(explanation.command),
  };
}

function recordingSection(recording: Recording, at: number): Section {
  const figures = new RecordingFigures(recording, `f${at + 1}`);
  const warnings = dirty(recording.commit);
  if (!recording.complete) {
    const why = recording.reason ? `: ${recording.reason}` : "";
    warnings.unshift(`Partial: this recording was interrupted${why}. Its figures end where its tables do.`);
  }
  if (recording.lost.length) warnings.unshift(`Without tables, so not shown: ${list(recording.lost)}.`);
  const slowest = recording.runs.flatMap((run) => classes(run.flows).map((traffic) => {
    const own = run.flows.filter((flow) => flow.own && (flow.traffic ?? null) === traffic);
    if (traffic !== null && !own.length) return null;
    const times = own.map((flow) => flow.fct_ns).filter((time) => time !== null);
    const done = own.filter((flow) => flow.outcome === "completed").length;
    const mean = times.reduce((sum, time) => sum + time, 0) / times.length / 1e9;
    const who = `${run.scheduler}${run.condition ? ` under ${run.condition}` : ""}${traffic === null ? "" : `, ${traffic}`}`;
    if (traffic !== null && !hasGoodput(traffic, own[0]?.kind)) return `${who}: ${count(done)} of ${count(own.length)} flows (${own[0]?.kind}) ended in time.`;
    if (own.length && own.every((flow) => flow.size_bytes === null)) {
      const rates = own.map((flow) => flow.goodput_bps ?? 0);
      const goodput = rate(rates.reduce((sum, value) => sum + value, 0) / rates.length);
      return `${who}: ${own.length === 1 ? "a bulk flow" : `${count(own.length)} bulk flows`} with a goodput of ${goodput}` +
        `${own.length === 1 ? "" : " on average"}.`;
    }
    const took = times.length ? ` in ${seconds(mean)}${times.length > 1 ? " on average" : ""}` : "";
    return `${who}: ${count(done)} of ${count(own.length)} flows completed${took}.`;
  }).filter((sentence) => sentence !== null));
  return {
    title: recording.scenario ? `Recorded runs of ${recording.scenario}` : "Recorded runs",
    verdict: slowest.length ? slowest : ["There are no runs with tables."],
    warnings,
    contenders: figures.contenders,
    subflows: figures.subflows,
    figures: figures.figures(),
    setting: [
      ["directory", recording.file],
      ...built(recording.version, recording.commit),
      ["scenario (SHA-256)", recording.scenario_hash],
      ["seed", String(recording.seed)],
      ["run", recording.run === null ? "a single run" : `run ${recording.run} of a comparison`],
      ["flows", list(recording.runs.map((run) => `${run.scheduler}${run.condition ? ` under ${run.condition}` : ""} ${count(run.flows.length)}`))],
    ],
    command: shell(recording.command),
  };
}

class Page {
  private readonly scene: Scene;
  private readonly drawn: Drawn[] = [];
  private choice: Choice = "auto";
  private printing = false;

  constructor(
    private readonly report: Report,
    private readonly root: HTMLElement,
  ) {
    const sections = report.inputs.map(section);
    const contenders = [...new Set(sections.flatMap((section) => section.contenders))];
    const known = styles(contenders);
    this.scene = {
      theme: themeOf("auto", false),
      hidden: new Set(),
      styles: known,
      colour: (contender) => {
        const style = known.get(contender);
        return style ? (this.scene.theme.dark ? style.dark : style.light) : this.scene.theme.text;
      },
    };
    this.applyTheme();
    const theme = button("Theme: auto", "Light, dark, or as the system has it", () => {
      this.choice = CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length] as Choice;
      theme.textContent = `Theme: ${this.choice}`;
      this.repaint();
    });
    theme.className = "theme";
    const title = el("h1", {}, "anabranch report");
    this.root.append(el("header", { class: "head" }, title, theme));
    for (const each of sections) this.root.append(verdict(each, sections.length > 1));
    const subflows = [...new Set(sections.flatMap((section) => section.subflows ?? []))];
    const legend = this.legend(contenders, subflows);
    if (contenders.length) this.root.append(legend);
    sections.forEach((each, at) => this.show(each, `f${at + 1}`));
    this.root.append(footer(this.report));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  private legend(contenders: string[], subflows: string[]): HTMLElement {
    const legend = el("div", { class: "legend", role: "group", "aria-label": "Contenders shown in the figures" });
    const toggle = (text: string, hidden: string, mark: SVGElement | null) => {
      const isShown = !this.scene.hidden.has(hidden);
      const button = el("button", { type: "button", "aria-pressed": String(isShown), title: text }, mark, el("span", {}, text));
      button.addEventListener("click", () => {
        if (this.scene.hidden.has(hidden)) this.scene.hidden.delete(hidden);
        else this.scene.hidden.add(hidden);
        button.setAttribute("aria-pressed", String(!this.scene.hidden.has(hidden)));
        for (const figure of this.drawn) figure.redraw(false);
      });
      return button;
    };
    const fill = () => {
      const words = (text: string) => el("span", { class: "dim" }, text);
      const all: HTMLElement[] = [words("Show:"), ...contenders.map((name) => toggle(name, name, swatch(this.scene, name)))];
      if (subflows.length > 1) all.push(words("Subflows:"), ...subflows.map((name) => toggle(name, hiddenSubflow(name), null)));
      legend.replaceChildren(...all);
    };
    fill();
    this.refill = fill;
    return legend;
  }

  private refill: () => void = () => {};

  private show(each: Section, prefix: string): void {
    this.root.append(el("h2", {}, name(each.title)));
    for (const figure of each.figures) {
      const drawn = new Drawn(figure, this.scene);
      this.drawn.push(drawn);
      this.root.append(drawn.element);
    }
    if (each.usage) this.root.append(usage(each.usage, `${prefix}-usage`));
    const setting = each.setting.map(([key, value]) => el("tr", {}, el("th", { scope: "row" }, key),
      el("td", {}, value.includes("\n") ? el("pre", {}, value.trimEnd()) : value)));
    const box = el("section", { class: "figure", "aria-label": "Setting" }, el("h3", {}, "Setting, and how to make it again"));
    if (each.command) box.append(el("pre", {}, each.command));
    box.append(el("p", { class: "dim" }, "The same version, scenario and seed give the same numbers to the last digit, on any machine and any number of threads."));
    box.append(el("table", { class: "setting" }, el("tbody", {}, ...setting)));
    this.root.append(box);
  }

  private applyTheme(): void {
    this.scene.theme = themeOf(this.choice, this.printing);
    document.documentElement.dataset.theme = this.scene.theme.dark ? "dark" : "light";
  }

  private repaint(): void {
    this.applyTheme();
    this.refill();
    for (const figure of this.drawn) figure.redraw(this.printing);
  }

  private print(on: boolean): void {
    this.printing = on;
    this.repaint();
  }
}

/** The section with the data of each path and its cost. */
function usage(data: Table, id: string): HTMLElement {
  const title = "Data and cost of each path";
  const tools = el("div", { class: "tools" }, button("Save CSV", "The table as CSV", () => save(`${id}.csv`, "text/csv", csv(data))));
  return el("section", { class: "figure", id, "aria-label": title }, el("div", { class: "top" }, el("h3", {}, title), tools),
    el("p", { class: "dim" }, "The mean of a run, as the client's interface counts it: whole packets with their headers, of all flows."), table(data));
}

function verdict(each: Section, titled: boolean): HTMLElement {
  const box = el("section", { class: "verdict", "aria-label": "Result" });
  if (titled) box.append(el("p", { class: "dim" }, name(each.title)));
  for (const text of each.verdict) box.append(el("p", {}, name(text)));
  for (const text of each.warnings) box.append(el("p", { class: "warning" }, text));
  return box;
}

function swatch(scene: Scene, contender: string): SVGElement {
  const make = (tag: string, attributes: Record<string, string>) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const style = scene.styles.get(contender);
  const colour = scene.colour(contender);
  // Long enough for the pattern of a line on each side of its mark.
  const svg = make("svg", { width: "48", height: "14", "aria-hidden": "true" });
  const marks = {
    circle: make("circle", { cx: "24", cy: "7", r: "4.5", fill: colour }),
    rect: make("rect", { x: "20", y: "3", width: "8", height: "8", fill: colour }),
    triangle: make("polygon", { points: "24,2 29,11.5 19,11.5", fill: colour }),
    diamond: make("polygon", { points: "24,1 30,7 24,13 18,7", fill: colour }),
  };
  const dash = (style?.dash ?? []).join(" ");
  svg.append(make("line", { x1: "0", y1: "7", x2: "48", y2: "7", stroke: colour, "stroke-width": "2", "stroke-dasharray": dash }));
  svg.append(marks[style?.symbol ?? "circle"]);
  return svg;
}

function footer(report: Report): HTMLElement {
  const text = `Written by anabranch ${report.version}${report.commit ? ` (${report.commit})` : ""}: ${shell(report.command)}. ` +
    "Drag over a figure to zoom, double-click to show all of it again; Ctrl and the wheel zoom too. This file loads nothing from anywhere.";
  return el("footer", {}, el("p", { class: "dim" }, text));
}

function start(): void {
  const root = document.getElementById("report") as HTMLElement;
  const report = JSON.parse(document.getElementById("data")?.textContent ?? "") as Report;
  if (report.report !== VERSION) {
    root.append(el("p", { class: "warning" }, `The data of this report have version ${report.report}, and this page reads ${VERSION}.`));
    return;
  }
  new Page(report, root);
}

start();
