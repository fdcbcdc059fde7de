// The form: paths, traffic and contenders.

import { button, el } from "../../report/src/dom";
import { count } from "../../report/src/format";
import { pathColour, type Theme } from "../../report/src/theme";
import { select, slider, type Scale, steps } from "./controls";
import type { Lists } from "./lists";
import { BOUNDS, BUFFERS, LEAST_BACK, LEAST_BUFFER, MOST_PATHS, MOST_SCHEDULERS, type PathState, path, SIZES, type State, sizeText, unique } from "./state";

/** The sliders of a path. */
const SCALES: [Exclude<keyof typeof BOUNDS, "back">, Scale][] = [
  ["rate", { label: "Rate", unit: "Mbit/s", steps: steps(...BOUNDS.rate) }],
  ["rtt", { label: "RTT", unit: "ms", steps: steps(...BOUNDS.rtt) }],
  ["loss", { label: "Loss", unit: "%", steps: steps(...BOUNDS.loss, 0.01) }],
  ["queue", { label: "Queue", unit: "ms", steps: steps(...BOUNDS.queue) }],
  ["jitter", { label: "Jitter", unit: "ms", steps: steps(...BOUNDS.jitter, 1) }],
];
const BACK: Scale = { label: "Rate back", unit: "Mbit/s", steps: steps(...BOUNDS.back, 0.1), least: LEAST_BACK, write: (value) => (value ? "Mbit/s" : "same") };
const SIZE: Scale = { label: "Size", unit: "KB", steps: steps(...SIZES), write: sizeText };
const BUFFER: Scale = { label: "Receive buffer", unit: "KB", steps: steps(...BUFFERS, 10), least: LEAST_BUFFER, write: (value) => (value ? sizeText(value) : "as profile") };
const RUN: Scale = { label: "Runs", unit: "runs", steps: [1, 3, 10, 20, 30, 50, 100, 200] };

/** A trace that a reader gave. */
export type Traces = Map<string, string>;

/** The traces of a state's paths. */
export const filesOf = (state: State, traces: Traces): Record<string, string> =>
  Object.fromEntries(state.paths.flatMap(({ trace }) => (traces.has(trace) ? [[trace, traces.get(trace) as string]] : [])));

/** A trace has a line of some bytes for each packet; this is 30 seconds of 1 Gbit/s. */
const MOST_TRACE_BYTES = 20 << 20;

export class Form {
  readonly element = el("form", { "aria-label": "Paths, traffic and contenders" });
  private focus = "";

  /** The names that the module knows; none before it has started. */
  lists: Lists | null = null;

  constructor(
    readonly traces: Traces,
    private readonly theme: () => Theme,
    /** Called after each change. */
    private readonly changed: () => void,
    private readonly failed: (text: string) => void,
  ) {
    this.element.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Draws the form again, for another state or with other fields. */
  show(state: State): void {
    const parts: HTMLElement[] = state.paths.map((path, at) => this.path(state, path, at));
    if (state.paths.length < MOST_PATHS) {
      parts.push(button("Add a path", "Add a path to the network", () => {
        state.paths.push(path(String(state.paths.length + 1), 10, 50));
        unique(state.paths);
        this.again(state, `path-${state.paths.length - 1}`);
      }));
    }
    parts.push(this.traffic(state), this.contenders(state));
    this.element.replaceChildren(...parts);
    if (this.focus) this.element.querySelector<HTMLElement>(`[data-focus="${this.focus}"]`)?.focus();
    this.focus = "";
  }

  /** After a change of the form itself. */
  private again(state: State, focus: string): void {
    this.focus = focus;
    this.show(state);
    this.changed();
  }

  private path(state: State, path: PathState, at: number): HTMLElement {
    const swatch = el("span", { class: "swatch path", "aria-hidden": "true" });
    swatch.style.background = pathColour(at, this.theme());
    const name = el("input", { class: "pathname", value: path.name, "aria-label": `Name of path ${at + 1}`, maxlength: "24", "data-focus": `path-${at}` });
    name.addEventListener("change", () => {
      const before = path.name;
      // The others keep their names, and so do the choices that name them.
      const others = state.paths.filter((other) => other !== path);
      path.name = name.value.replace(/[^\w-]/g, "") || String(at + 1);
      unique([...others, path]);
      if (state.initial === before) state.initial = path.name;
      state.schedulers = state.schedulers.map((contender) => (contender === `tcp@${before}` ? `tcp@${path.name}` : contender));
      this.again(state, "");
    });
    const box = el("fieldset", { class: "path" }, el("legend", {}, swatch, `Path ${at + 1}`));
    const tools = el("div", { class: "bar" }, name, this.traceButton(state, path, box));
    if (state.paths.length > 2) {
      tools.append(button("Remove", `Remove path ${path.name}`, () => {
        state.paths.splice(at, 1);
        if (state.initial === path.name) state.initial = "";
        this.again(state, `path-${Math.max(0, at - 1)}`);
      }));
    }
    box.append(tools);
    for (const [key, scale] of SCALES) {
      if (key === "rate" && path.trace) continue;
      box.append(slider(scale, path[key], (value) => {
        path[key] = value;
        this.changed();
      }).element);
    }
    if (!path.trace) {
      const more = el("details", {}, el("summary", {}, "Other direction"), slider(BACK, path.back, (value) => {
        path.back = value;
        this.changed();
      }).element, el("p", { class: "dim" }, "The rate of the direction without the data; 0 is the same rate."));
      more.open = path.back > 0;
      box.append(more);
    }
    return box;
  }

  /** A trace replaces the rate: dropped on the path, or chosen as a file. */
  private traceButton(state: State, path: PathState, box: HTMLElement): HTMLElement {
    const take = async (file: File | undefined) => {
      if (!file) return;
      if (file.size > MOST_TRACE_BYTES) return this.failed(`The trace ${file.name} is larger than ${count(MOST_TRACE_BYTES >> 20)} MiB and was not taken.`);
      // A directory can be dropped too.
      const text = await file.text().catch(() => null);
      if (text === null) return this.failed(`${file.name} cannot be read.`);
      // The name is a part of the scenario, so it has no quotes and no directories. Files of several directories can have the same name.
      const own = file.name.replace(/[^\w.-]/g, "_") || "trace";
      let name = own;
      for (let at = 2; (this.traces.get(name) ?? text) !== text; at += 1) name = `${at}-${own}`;
      this.traces.set(name, text);
      path.trace = name;
      this.again(state, "");
    };
    box.addEventListener("dragover", (event) => {
      event.preventDefault();
      box.classList.add("over");
    });
    box.addEventListener("dragleave", () => box.classList.remove("over"));
    box.addEventListener("drop", (event) => {
      event.preventDefault();
      box.classList.remove("over");
      void take(event.dataTransfer?.files[0]);
    });
    if (path.trace) {
      return button(`Trace ${path.trace}: remove`, "Give the path a constant rate again", () => {
        path.trace = "";
        this.again(state, "");
      });
    }
    const file = el("input", { type: "file", class: "hidden", "aria-label": `File with a trace for path ${path.name}`, tabindex: "-1" });
    file.addEventListener("change", () => void take(file.files?.[0]));
    const open = button("Trace\u2026", "Choose a file with the times in milliseconds at which a packet can be sent, one a line; or drop it here", () => file.click());
    return el("span", {}, open, file);
  }

  private traffic(state: State): HTMLElement {
    const set = <K extends keyof State>(key: K) => (value: State[K]) => {
      state[key] = value;
      this.changed();
    };
    const names = state.paths.map((path): [string, string] => [path.name, path.name]);
    const known = (items: { name: string }[] | undefined, own: string) =>
      (items ?? [{ name: own }]).map((item): [string, string] => [item.name, item.name]);
    return el("fieldset", {}, el("legend", {}, "Traffic and hosts"),
      slider(SIZE, state.size, set("size")).element,
      slider(BUFFER, state.buffer, set("buffer")).element,
      slider(RUN, state.runs, (value) => {
        state.runs = Math.max(1, Math.round(value));
        this.changed();
      }).element,
      select("Direction", [["download", "download"], ["upload", "upload"]], state.direction, (value) => set("direction")(value as State["direction"])),
      select("First path", [["", `${state.paths[0]?.name} (the first one)`], ["best", "best (by estimate)"], ...names.slice(1)], state.initial === state.paths[0]?.name ? "" : state.initial, set("initial")),
      select("Congestion", [["", "as profile"], ...known(this.lists?.congestion, state.congestion || "lia")], state.congestion, set("congestion")),
      select("Hosts", known(this.lists?.profiles, state.profile), state.profile, set("profile")));
  }

  private contenders(state: State): HTMLElement {
    const known = this.lists?.schedulers.filter((item) => !item.name.includes("@")) ?? state.schedulers.map((name) => ({ name, what: "" }));
    const single = state.paths.map((path, at) => ({ name: `tcp@${path.name}`, what: `a plain TCP on path ${at + 1}` }));
    const all = [...known.slice(0, 1), ...single, ...known.slice(1)];
    state.schedulers = state.schedulers.filter((name) => all.some((item) => item.name === name));
    if (!state.schedulers.length) state.schedulers = ["tcp"];
    const note = el("p", { class: "dim", role: "status" });
    const boxes = all.map(({ name, what }) => {
      const box = el("input", { type: "checkbox", value: name });
      box.checked = state.schedulers.includes(name);
      box.addEventListener("change", () => {
        const chosen = all.map((item) => item.name).filter((other) => (other === name ? box.checked : state.schedulers.includes(other)));
        if (chosen.length === 0 || chosen.length > MOST_SCHEDULERS) {
          box.checked = !box.checked;
          note.textContent = chosen.length ? `At most ${MOST_SCHEDULERS} contenders are compared at once.` : "At least one contender is needed.";
          return;
        }
        note.textContent = "";
        state.schedulers = chosen;
        this.changed();
      });
      return el("label", { title: what }, box, el("span", {}, name));
    });
    return el("fieldset", {}, el("legend", {}, "Contenders"), el("div", { class: "checks" }, ...boxes), note);
  }
}
