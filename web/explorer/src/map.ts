// A map over two values of the experiment: the points of `anabranch sweep`, with the figures of its report.

import type { Input, SweepPoint } from "../../report/src/data";
import { button, el } from "../../report/src/dom";
import type { Scene } from "../../report/src/figure";
import { SweepFigures } from "../../report/src/sweep";
import { select } from "./controls";
import { Engine } from "./engine";
import { filesOf, type Traces } from "./form";
import { Figures } from "./live";
import { BOUNDS, BUFFERS, numberIn, type PathState, SIZES, type State, toToml } from "./state";

type Sweep = Extract<Input, { kind: "sweep" }>;

/** The values around the one of the experiment, as multiples of it. */
const FACTORS = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8];
const RUNS = 5;
/** The figures follow the points, but not each of them. */
const REDRAW_MS = 400;

/** A value that can be varied. */
interface Key {
  /** Its key in a scenario. */
  name: string;
  unit: string;
  /** The values if the value of the experiment is 0. */
  others: number[];
  bounds: readonly [number, number];
  get(state: State): number;
  set(state: State, value: number): void;
}

function keys(state: State): Key[] {
  const own = (name: string, key: "rate" | "rtt" | "loss" | "queue" | "jitter", unit: string, others: number[]): Key => {
    const of = (state: State) => state.paths.find((path) => path.name === name) as PathState;
    return { name: `path.${name}.${key}`, unit, others, bounds: BOUNDS[key], get: (state) => of(state)[key], set: (state, value) => (of(state)[key] = value) };
  };
  const all = state.paths.flatMap(({ name, trace }) => [
    ...(trace ? [] : [own(name, "rate", "Mbit/s", [])]),
    own(name, "rtt", "ms", []),
    own(name, "loss", "%", [0, 0.1, 0.3, 1, 2, 3, 5]),
    own(name, "queue", "ms", []),
    own(name, "jitter", "ms", [0, 1, 2, 5, 10, 20, 50]),
  ]);
  return [
    ...all,
    { name: "traffic.size", unit: "KB", others: [], bounds: SIZES, get: (state) => state.size, set: (state, value) => (state.size = value) },
    { name: "receive-buffer", unit: "KB", others: [50, 100, 200, 500, 1000, 2000, 5000], bounds: [1, BUFFERS[1]], get: (state) => state.buffer,
      set: (state, value) => (state.buffer = value) },
  ];
}

/** The values of a key in the map. */
function values(key: Key, state: State): number[] {
  const now = key.get(state);
  if (now === 0) return key.others;
  const all = FACTORS.map((factor) => numberIn(String(+(now * factor).toPrecision(3)), key.bounds, now));
  return [...new Set(all)];
}

export class MapOver {
  readonly element = el("details", { class: "figure", id: "map" });
  private readonly engine = new Engine();
  private readonly figures: Figures;
  private readonly choices = el("div", { class: "bar" });
  private readonly note = el("p", { class: "dim", role: "status" });
  private readonly command = el("pre");
  private readonly start: HTMLButtonElement;
  private state: State | null = null;
  private chosen: [string, string] = ["", ""];
  private serial = 0;
  /** The scenario of the map that is shown. */
  private computed = "";
  /** Says that the map is of another state. */
  private readonly age = el("p", { class: "notice", role: "status" });

  constructor(scene: Scene) {
    this.figures = new Figures(scene);
    this.start = button("Compute the map", "Compare the contenders at each point", () => void this.compute());
    this.command.hidden = true;
    this.element.append(el("summary", {}, "A map over two values"),
      el("p", { class: "dim" }, `Each cell is a comparison of ${RUNS} runs at values around the ones of the experiment. The first contender is the reference.`),
      this.choices, this.note, this.age, this.figures.element, this.command);
    this.element.addEventListener("toggle", () => this.element.open && this.fill());
  }

  /** The traces of the page. */
  traces: Traces = new Map();

  show(state: State): void {
    this.state = state;
    this.judgeAge();
    if (this.element.open) this.fill();
  }

  redraw(): void {
    this.figures.redraw();
  }

  private judgeAge(): void {
    const isOld = this.computed !== "" && this.state !== null && toToml(this.state) !== this.computed;
    this.age.textContent = isOld ? "The experiment has changed since: compute the map again." : "";
  }

  private fill(): void {
    if (!this.state) return;
    const all = keys(this.state).map((key) => key.name);
    const second = all.find((name) => name.endsWith(".rtt") && !name.startsWith(`path.${this.state?.paths[0]?.name}.`));
    if (!all.includes(this.chosen[0])) this.chosen[0] = "traffic.size";
    if (!all.includes(this.chosen[1]) || this.chosen[1] === this.chosen[0]) this.chosen[1] = second ?? (all[0] as string);
    const options = all.map((name): [string, string] => [name, name]);
    const set = (at: 0 | 1) => (name: string) => {
      if (this.chosen[1 - at] === name) this.chosen[1 - at] = this.chosen[at];
      this.chosen[at] = name;
      this.fill();
    };
    this.choices.replaceChildren(select("Across", options, this.chosen[0], set(0)), select("Up", options, this.chosen[1], set(1)), this.start);
  }

  private async compute(): Promise<void> {
    const { state } = this;
    if (!state) return;
    const serial = (this.serial += 1);
    const [x, y] = this.chosen.map((name) => keys(state).find((key) => key.name === name)) as [Key, Key];
    const [across, up] = [values(x, state), values(y, state)];
    const reference = state.schedulers[0] as string;
    if (state.schedulers.length < 2) {
      this.note.textContent = "A map needs two contenders.";
      return;
    }
    const sweep: Sweep = {
      kind: "sweep", file: "explorer", version: "", commit: null, command: null, design: "grid", plan: "", points: across.length * up.length,
      dimensions: [x, y].map((key) => ({ name: key.name, unit: key.unit, logarithmic: key.get(state) !== 0 })), results: [],
    };
    this.computed = toToml(state);
    this.judgeAge();
    let drawn = 0;
    const draw = () => {
      drawn = performance.now();
      this.figures.show(new SweepFigures(sweep, "m").figures().filter((figure) => figure.id === "m-map"));
    };
    for (const [row, upper] of up.entries()) {
      for (const [column, value] of across.entries()) {
        const point = row * across.length + column;
        const varied = structuredClone(state);
        x.set(varied, value);
        y.set(varied, upper);
        const answer = await this.engine.ask<SweepPoint>({
          verb: "point", name: "explorer.toml", text: toToml(varied, RUNS, reference), files: filesOf(varied, this.traces), point,
        });
        if (!answer || serial !== this.serial) return;
        if (answer.error) {
          this.note.textContent = answer.error.split("\n")[0] ?? "";
          return;
        }
        sweep.results.push({ ...answer, values: [value, upper] });
        this.note.textContent = `${sweep.results.length} of ${sweep.points} points.`;
        if (performance.now() - drawn > REDRAW_MS) draw();
      }
    }
    draw();
    this.element.dataset.points = String(sweep.points);
    this.note.textContent = new SweepFigures(sweep, "m").verdict().join(" ");
    const vary = (key: Key, values: number[]) => `--vary '${key.name}=${values.map((value) => `${value}${key.unit}`).join(",")}'`;
    this.command.hidden = false;
    this.command.textContent = `anabranch sweep explorer.toml --set reference=${reference} --runs ${RUNS} \\\n    ${vary(x, across)} \\\n    ${vary(y, up)} -o map`;
  }
}
