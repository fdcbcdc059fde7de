// The look inside: films of one run of one or two contenders, which share the losses and the time, and the bars of an explanation.

import type { Explanation } from "../../report/src/results";
import { button, el } from "../../report/src/dom";
import { explanationFigures } from "../../report/src/explanation";
import type { Scene } from "../../report/src/figure";
import { select } from "./controls";
import { Engine } from "./engine";
import { Film, type FilmData } from "./film";
import { filesOf, type Traces } from "./form";
import { Figures } from "./live";
import { Stage } from "./stage";
import { type State, toToml } from "./state";

/** The films are this long in the time of the reader, at the speed 1. */
const LENGTH_MS = 15_000;
const STEPS = 2000;
/** The runs of an explanation: its bars are means. */
const EXPLAINED_RUNS = 10;

export class Inside {
  readonly element = el("details", { class: "figure", id: "inside" });
  private readonly engine = new Engine();
  private readonly explaining = new Engine();
  private readonly bars: Figures;
  private readonly stages = el("div", { class: "stages" });
  private readonly choices = el("div", { class: "bar" });
  private readonly note = el("p", { class: "dim", role: "status" });
  private readonly play: HTMLButtonElement;
  private readonly time = el("input", { type: "range", min: "0", max: String(STEPS), step: "1", value: "0", "aria-label": "Time in the run" });
  private readonly clock = el("output", {}, "0 ms");
  private shown: { film: Film; stage: Stage }[] = [];
  private state: State | null = null;
  /** The state that is shown has changed since the films were made. */
  private isStale = true;
  private run = 0;
  private pair: [string, string] = ["", ""];
  private speed = 1;
  private isPlaying = false;
  private share = 0;
  private last = 0;

  constructor(private readonly scene: Scene) {
    this.bars = new Figures(scene);
    this.play = button("Play", "Play or pause the run", () => this.toggle());
    this.time.addEventListener("input", () => {
      this.pause();
      this.seek(Number(this.time.value) / STEPS);
    });
    const speeds: [string, string][] = [["0.25", "60 s"], ["1", "15 s"], ["4", "4 s"]];
    const bar = el("div", { class: "times" }, el("div", { class: "bar" }, this.play,
      button("\u25c0", "A step back", () => this.step(-1)), button("\u25b6", "A step forwards", () => this.step(1)),
      select("Plays in", speeds, "1", (value) => (this.speed = Number(value))), this.clock), this.time);
    bar.style.gridTemplateColumns = "minmax(0, 1fr)";
    this.element.append(el("summary", {}, "Look inside: the packets of one run"),
      el("p", { class: "dim" }, "Each lane is a path: its queue, the packets in flight, and below them the acknowledgements on their way back. Filled: data of the path; framed: " +
        "retransmitted, and taller: reinjected on another path. The bar is the stream at the receiver: delivered in order, then data that wait behind a hole; the " +
        "solid line is the acknowledgement that the sender has (DATA_ACK), the dashed one the end of the receive window. " +
        "Both contenders have the same losses where their packets are the same ones."),
      this.choices, bar, this.note, this.stages, this.bars.element);
    this.element.addEventListener("toggle", () => this.element.open && this.refresh());
    new ResizeObserver(() => {
      for (const { stage } of this.shown) stage.refresh();
      this.draw();
    }).observe(this.stages);
  }

  /** Takes over the state of the comparison that is shown. */
  show(state: State): void {
    this.state = state;
    this.isStale = true;
    if (!state.schedulers.includes(this.pair[0])) this.pair[0] = state.schedulers.find((name) => !name.startsWith("tcp")) ?? state.schedulers[0] ?? "";
    if (!state.schedulers.includes(this.pair[1]) || this.pair[1] === this.pair[0]) this.pair[1] = state.schedulers.filter((name) => name !== this.pair[0]).pop() ?? "";
    if (this.run >= state.runs) this.run = 0;
    if (this.element.open) this.refresh();
  }

  repaint(): void {
    for (const { stage } of this.shown) stage.refresh();
    this.bars.redraw();
    this.draw();
  }

  private refresh(): void {
    const { state } = this;
    if (!state || !this.isStale) return;
    this.isStale = false;
    const names = state.schedulers.map((name): [string, string] => [name, name]);
    const set = (at: 0 | 1) => (value: string) => {
      this.pair[at] = value;
      this.isStale = true;
      this.refresh();
    };
    const runs = Array.from({ length: Math.min(state.runs, 30) }, (_, at): [string, string] => [String(at), String(at)]);
    this.choices.replaceChildren(select("Contender", names, this.pair[0], set(0)), select("next to", [["", "none"], ...names], this.pair[1], set(1)),
      select("Run", runs, String(this.run), (value) => {
        this.run = Number(value);
        this.isStale = true;
        this.refresh();
      }));
    void this.film(state);
    void this.explain(state);
  }

  private async film(state: State): Promise<void> {
    this.pause();
    const wanted = [...new Set(this.pair.filter(Boolean))];
    // The choice of a path for plain TCP depends on the contenders' names, so each is asked for as it is compared.
    const answer = await this.engine.ask<FilmData[]>({
      verb: "film", name: "explorer.toml", text: toToml({ ...state, schedulers: wanted }), files: filesOf(state, this.traces), run: this.run,
    });
    if (!answer) return;
    if (answer.error) {
      this.note.textContent = answer.error.split("\n")[0] ?? "";
      this.shown = [];
      this.stages.replaceChildren();
      return;
    }
    this.note.textContent = "";
    const films = wanted.map((name) => answer.find((data) => data.scheduler === name)).filter((data) => data !== undefined).map((data) => new Film(data));
    this.shown = films.map((film) => ({ film, stage: new Stage(film, () => this.scene.theme, (share) => {
      this.pause();
      this.seek(share);
    }) }));
    this.stages.replaceChildren(...this.shown.map(({ stage }) => stage.element));
    this.stages.dataset.count = String(films.length);
    this.stages.dataset.packets = films.map((film) => film.packets.t_ns.length).join(" ");
    this.seek(Math.min(this.share, 1));
  }

  private async explain(state: State): Promise<void> {
    const answer = await this.explaining.ask<Explanation>({
      verb: "explain", name: "explorer.toml", text: toToml(state, Math.min(state.runs, EXPLAINED_RUNS)), files: filesOf(state, this.traces),
    });
    if (!answer || answer.error) return;
    this.bars.show(explanationFigures(answer, "e"));
  }

  /** The traces of the page. */
  traces: Traces = new Map();

  /** The common end of the films. */
  private get span(): { begin: number; end: number } {
    const films = this.shown.map(({ film }) => film);
    return { begin: Math.min(...films.map((film) => film.begin)), end: Math.max(...films.map((film) => film.end)) };
  }

  private seek(share: number): void {
    this.share = share;
    this.time.value = String(Math.round(share * STEPS));
    this.draw();
  }

  private step(by: number): void {
    this.pause();
    this.seek(Math.min(1, Math.max(0, this.share + (5 * by) / STEPS)));
  }

  private draw(): void {
    if (!this.shown.length || !this.element.open) return;
    const { begin, end } = this.span;
    const t = begin + this.share * (end - begin);
    const text = `${((t - begin) / 1e6).toFixed(1)} ms`;
    this.clock.textContent = `${text} of ${((end - begin) / 1e6).toFixed(1)} ms`;
    this.time.setAttribute("aria-valuetext", text);
    for (const { stage } of this.shown) stage.draw(t, begin, end);
  }

  private toggle(): void {
    if (this.isPlaying) return this.pause();
    if (this.share >= 1) this.share = 0;
    this.isPlaying = true;
    this.play.textContent = "Pause";
    this.last = performance.now();
    let [frames, since] = [0, this.last];
    const frame = (now: number) => {
      if (!this.isPlaying) return;
      this.seek(Math.min(1, this.share + (this.speed * Math.max(0, now - this.last)) / LENGTH_MS));
      this.last = now;
      frames += 1;
      if (now - since >= 1000) {
        this.stages.dataset.fps = (frames / ((now - since) / 1000)).toFixed(1);
        [frames, since] = [0, now];
      }
      if (this.share >= 1) return this.pause();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  private pause(): void {
    this.isPlaying = false;
    this.play.textContent = "Play";
  }
}
