// The page: the form, the comparison that follows it, the look inside, the tour, and ways to take the experiment along.

import type { Comparison } from "../../report/src/results";
import { comparisonFigures } from "../../report/src/comparison";
import { button, el } from "../../report/src/dom";
import type { Scene } from "../../report/src/figure";
import { count, seconds } from "../../report/src/format";
import { type Choice, styles, themeOf } from "../../report/src/theme";
import { select } from "./controls";
import { Engine } from "./engine";
import { filesOf, Form, type Traces } from "./form";
import { type Lists, PRESETS } from "./lists";
import { Inside } from "./inside";
import { Figures } from "./live";
import { MapOver } from "./map";
import { Share } from "./share";
import { FIRST, fromFragment, type State, toFragment, toToml, unique } from "./state";
import { type Step, STEPS, Tour } from "./tour";

const CHOICES: Choice[] = ["auto", "light", "dark"];
/** The numbers of runs of the rounds before the last one: a first answer, and a better one. */
const ROUNDS = [3, 10];
/** A first round that takes longer than this is given up when the state has changed. */
const PATIENCE_MS = 400;
/** Safari allows 100 changes of the address in 30 seconds, and a slider makes more. */
const ADDRESS_MS = 320;
/** The figures that are always shown; the others are below them. */
const MAIN = ["f-difference", "f-completion"];

class Page {
  private state: State;
  private readonly traces: Traces = new Map();
  private readonly engine = new Engine();
  private readonly scene: Scene;
  private choice: Choice = "auto";
  private lists: Lists | null = null;
  private readonly form: Form;
  private readonly share: Share;
  private readonly inside: Inside;
  private readonly map: MapOver;
  private readonly tour: Tour;
  private readonly verdict = el("section", { class: "verdict", "aria-label": "Result" });
  /** The fault of a file that was not taken, until the next change. */
  private readonly notice = el("p", { class: "notice", role: "alert" });
  private readonly progress = el("p", { class: "dim state" });
  /** The text for screen readers: the verdict of the last round only, as all rounds would be too much. */
  private readonly said = el("p", { class: "hidden", role: "status" });
  /** The mean times in a line, which stays in view where the figures are below the form. */
  private readonly means = el("p", { class: "means" });
  private readonly main: Figures;
  private readonly more: Figures;
  private readonly others = el("details", { id: "more" }, el("summary", {}, "More figures: distribution, paths, goodput, other first paths"));
  private readonly result = el("div", { class: "result" });
  private readonly presets = el("span", {});
  /** The state has changed since the round that is computed. */
  private isStale = false;
  private round: { begun: number; isFirst: boolean } | null = null;
  /** The fragment of the address that the page has written or read last. */
  private written = location.hash;
  private writing: ReturnType<typeof setTimeout> | undefined;

  constructor(root: HTMLElement) {
    this.state = stateOf(location.hash);
    this.scene = {
      theme: themeOf("auto", false),
      hidden: new Set(),
      styles: styles(this.state.schedulers),
      colour: (contender) => {
        const style = this.scene.styles.get(contender);
        return style ? (this.scene.theme.dark ? style.dark : style.light) : this.scene.theme.text;
      },
    };
    this.applyTheme();
    this.main = new Figures(this.scene);
    this.more = new Figures(this.scene);
    this.share = new Share(this.traces);
    this.inside = new Inside(this.scene);
    this.map = new MapOver(this.scene);
    this.inside.traces = this.map.traces = this.traces;
    this.form = new Form(this.traces, () => this.scene.theme, () => this.changed(), (text) => (this.notice.textContent = text));
    const theme = button("Theme: auto", "Light, dark, or as the system has it", () => {
      this.choice = CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length] as Choice;
      theme.textContent = `Theme: ${this.choice}`;
      this.repaint();
    });
    theme.className = "theme";
    this.tour = new Tour((step) => this.tell(step));
    const tour = button("Tour", "Ten states of this page that explain what matters", () => this.tour.start());
    const tools = el("div", { class: "bar" }, this.presets, tour, theme);
    const intro = el("p", {}, "Which multipath scheduler serves these paths best, and why? Move a slider: the protocol stack of anabranch, " +
      "its links and its simulator run in this page, and the figures follow.");
    this.others.append(this.more.element);
    this.others.addEventListener("toggle", () => this.more.redraw());
    this.result.append(this.notice, this.verdict, this.progress, this.said, this.main.element, this.others);
    root.append(el("header", { class: "head" }, el("h1", {}, "anabranch explorer"), tools), intro, this.tour.element, this.means,
      el("main", { class: "layout" }, this.form.element, this.result, el("section", { class: "wide", "aria-label": "More about the experiment" }, this.inside.element, this.map.element, this.share.element)),
      el("footer", {}, el("p", { class: "dim" }, "This page loads nothing from anywhere and sends nothing to anywhere. The same version, scenario and " +
        "seed give the same numbers to the last digit here, on the command line and in Python.")));
    this.form.show(this.state);
    this.follow();
    // A file that misses its path does not replace the page.
    for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    addEventListener("hashchange", () => {
      if (location.hash === this.written) return;
      this.written = location.hash;
      this.follow();
      this.take(stateOf(location.hash));
    });
    void this.begin();
  }

  /** Asks for the names that the module knows, and computes the first result. */
  private async begin(): Promise<void> {
    const lists = await new Engine().ask<Lists>({ verb: "list" });
    if (!lists || lists.error) return this.fail(lists?.error ?? "the module did not start");
    this.lists = lists;
    this.form.lists = lists;
    this.presets.append(select("Preset", [["", "choose\u2026"], ...PRESETS.map((preset, at): [string, string] => [String(at), preset.name])], "", (at) => {
      const preset = PRESETS[Number(at)];
      if (at !== "" && preset) this.take({ ...structuredClone(FIRST), ...preset.state(lists) });
    }));
    this.form.show(this.state);
    this.changed();
  }

  /** Shows another state. */
  private take(state: State): void {
    unique(state.paths);
    this.state = state;
    this.form.show(state);
    this.changed();
  }

  /** Goes to a step of the tour, or ends it. */
  private tell(step: Step | null): void {
    if (!step) return this.changed();
    this.take(fromFragment(step.state));
    this.openPart(step);
  }

  /** Opens the part of the page that a step of the tour is about. */
  private openPart(step: Step): void {
    this.inside.element.open = step.opens === "inside";
    this.map.element.open = step.opens === "map";
  }

  /** Shows the step of the tour that the address has. */
  private follow(): void {
    const at = tourOf(location.hash);
    this.tour.show(at);
    const step = STEPS[at - 1];
    if (step) this.openPart(step);
  }

  /** After each change of the state. */
  private changed(): void {
    this.writing ??= setTimeout(() => this.write(), ADDRESS_MS);
    this.notice.textContent = "";
    this.share.show(this.state);
    if (!this.lists) return;
    // While a slider moves, a quick first round is shown although it is a little behind.
    if (this.round?.isFirst) {
      this.isStale = true;
      const { begun } = this.round;
      setTimeout(() => this.round?.begun === begun && this.isStale && void this.compute(), PATIENCE_MS - (performance.now() - begun));
      return;
    }
    void this.compute();
  }

  /** Writes the state into the address. */
  private write(): void {
    this.writing = undefined;
    // The reader has gone back or forwards, and the event is on its way.
    if (location.hash !== this.written) return;
    this.written = `#${toFragment(this.state)}${this.tour.step ? `&tour=${this.tour.step}` : ""}`;
    history.replaceState(null, "", this.written);
  }

  /** Compares the contenders, in rounds. */
  private async compute(): Promise<void> {
    this.isStale = false;
    const state = structuredClone(this.state);
    const rounds = [...ROUNDS.filter((runs) => runs < state.runs), state.runs];
    this.result.classList.add("busy");
    for (const runs of rounds) {
      const isLast = runs === state.runs;
      this.round = { begun: performance.now(), isFirst: runs === rounds[0] && !isLast };
      const round = this.round;
      const answer = await this.engine.ask<Comparison>({
        verb: "compare", name: "explorer.toml", text: toToml(state, runs), files: filesOf(state, this.traces), other_starts: isLast,
      });
      if (!answer) return;
      if (this.round === round) this.round = null;
      if (answer.error) this.fail(answer.error);
      else this.show(answer, state, isLast);
      if (this.isStale) return void this.compute();
      if (answer.error) return;
    }
    this.result.classList.remove("busy");
  }

  private show(result: Comparison, state: State, isLast: boolean): void {
    this.result.classList.remove("failed");
    this.scene.styles = styles(result.rows.map((row) => row.scheduler));
    const lines = result.verdict.split("\n").filter(Boolean);
    this.verdict.replaceChildren(...lines.map((text) => el("p", {}, el("bdi", {}, text))));
    if (!isLast) this.verdict.append(el("p", { class: "dim" }, `After ${result.runs} of ${state.runs} runs.`));
    const ms = this.engine.ms;
    this.progress.textContent = `${count(result.runs)} of ${count(state.runs)} runs of each contender; computed in ${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms.`;
    this.result.dataset.runs = String(result.runs);
    this.result.dataset.ms = String(ms);
    this.means.replaceChildren(...result.rows.flatMap((row, at) => [at ? ", " : "", el("bdi", {}, row.scheduler), ` ${seconds(row.fct_s.mean)}`]));
    if (isLast) {
      this.said.textContent = lines[0] ?? "";
      this.inside.show(state);
      this.map.show(state);
    }
    const figures = comparisonFigures(result, null, "f");
    this.main.show(figures.filter((figure) => MAIN.includes(figure.id)));
    this.more.show(figures.filter((figure) => !MAIN.includes(figure.id)));
    this.others.hidden = figures.every((figure) => MAIN.includes(figure.id));
  }

  /** Shows an error in place of the verdict. The figures are still of the state before it. */
  private fail(text: string): void {
    this.result.classList.remove("busy");
    this.result.classList.add("failed");
    this.means.replaceChildren();
    this.verdict.replaceChildren(el("p", { class: "warning", role: "alert" }, text.split("\n")[0] ?? text), ...(text.includes("\n") ? [el("pre", {}, text)] : []));
    this.progress.textContent = "";
    delete this.result.dataset.runs;
  }

  private applyTheme(): void {
    this.scene.theme = themeOf(this.choice, false);
    document.documentElement.dataset.theme = this.scene.theme.dark ? "dark" : "light";
  }

  private repaint(): void {
    this.applyTheme();
    this.form.show(this.state);
    this.main.redraw();
    this.more.redraw();
    this.inside.repaint();
    this.map.redraw();
  }
}

/** The step of the tour in a fragment, or 0. */
function tourOf(fragment: string): number {
  const step = Number(new URLSearchParams(fragment.replace(/^#/, "")).get("tour"));
  return Number.isInteger(step) && step > 0 && step <= STEPS.length ? step : 0;
}

/** The state of a fragment: of its step of the tour if it has nothing else. */
function stateOf(fragment: string): State {
  const step = STEPS[tourOf(fragment) - 1];
  return fromFragment(step && !/[#&]path=/.test(fragment) ? step.state : fragment);
}

new Page(document.getElementById("explorer") as HTMLElement);
