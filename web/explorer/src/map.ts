// A map over two values of the experiment: the points of `anabranch sweep`, with the figures of its report.

import type { Input, SweepPoint } from "../../report/src/results";
import { button, el } from "../../report/src/dom";
import type { Scene } from "../../report/src/figure";
import { SweepFigures } from "../../report/src/sweep";
import { type Key, keys, RUNS, toSweep, values } from "./axes";
import { select } from "./controls";
import { Engine } from "./engine";
import { filesOf, type Traces } from "./form";
import { Figures } from "./live";
import { type State, toToml } from "./state";

type Sweep = Extract<Input, { kind: "sweep" }>;

/** The figures follow the points, but not each of them. */
const REDRAW_MS = 400;

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
    this.command.hidden = false;
    this.command.textContent = `anabranch ${toSweep(reference, [[x, across], [y, up]])} -o map`;
  }
}
