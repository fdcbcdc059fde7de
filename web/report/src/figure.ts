// The frame of a figure: title, explanation, controls, panels that zoom, and the table behind it.

import { type Any, echarts } from "./chart";
import { button, csv, el, save, type Table, table } from "./dom";
import type { Style, Theme } from "./theme";

/** What every figure of a section shares. */
export interface Scene {
  theme: Theme;
  hidden: Set<string>;
  styles: Map<string, Style>;
  colour(name: string): string;
}

/** The line of a contender. */
export function lineStyle(scene: Scene, contender: string, width: number): Any {
  const dash = scene.styles.get(contender)?.dash ?? [];
  return { color: scene.colour(contender), width, type: dash.length ? dash : "solid" };
}

export type Range = [number, number];

/** One chart. `draw` is given its width and the range it is zoomed to. */
export interface Panel {
  title: string;
  label: string;
  /** The number of points that the last drawing had, of a panel that thins out its data. */
  points?: number;
  height(scene: Scene): number;
  draw(scene: Scene, width: number, zoom: Range | null): Any;
}

export interface Figure {
  id: string;
  title: string;
  note: string;
  /** Side by side where there is space. */
  two?: boolean;
  controls?(redraw: () => void): HTMLElement[];
  panels(): Panel[];
  key?(scene: Scene): HTMLElement | null;
  table(): Table;
}

/** A drag shorter than this is a click. */
const LEAST_DRAG_PX = 6;

class Chart {
  readonly element = el("div", { class: "panel" });
  private readonly place: HTMLElement;
  private chart: Any = null;
  private zoom: Range | null = null;
  private readonly reset: HTMLButtonElement;

  constructor(
    public panel: Panel,
    private readonly scene: Scene,
    private readonly file: string,
  ) {
    this.place = el("div", { class: "chart", role: "img", "aria-label": panel.label });
    this.place.style.height = `${panel.height(scene)}px`;
    this.reset = button("Reset zoom", "Show the whole range", () => this.zoomTo(null));
    this.reset.hidden = true;
    const svg = button("SVG", "Save this chart as SVG, as it is shown", () => this.saveSvg());
    const tools = el("div", { class: "tools" }, this.reset, svg);
    const top = el("div", { class: "top" }, el("h4", {}, panel.title), tools);
    top.style.cssText = "display:flex;justify-content:space-between;gap:.5rem;align-items:end";
    this.element.append(top, this.place);
    this.drag();
  }

  get isDrawn(): boolean {
    return this.chart !== null;
  }

  draw(): void {
    const height = `${this.panel.height(this.scene)}px`;
    const resized = this.place.style.height !== height;
    this.place.style.height = height;
    this.place.setAttribute("aria-label", this.panel.label);
    if (this.chart === null) this.chart = echarts.init(this.place, null, { renderer: "canvas" });
    else if (resized) this.chart.resize();
    this.chart.setOption(this.panel.draw(this.scene, this.place.clientWidth, this.zoom), { notMerge: true });
    this.place.dataset.drawn = "true";
    if (this.panel.points !== undefined) this.place.dataset.points = String(this.panel.points);
  }

  resize(): void {
    if (this.chart === null) return;
    this.chart.resize();
    this.draw();
  }

  private zoomTo(range: Range | null): void {
    this.zoom = range;
    this.reset.hidden = range === null;
    if (range) this.place.dataset.zoom = `${range[0]} ${range[1]}`;
    else delete this.place.dataset.zoom;
    this.draw();
  }

  private value(x: number): number {
    return this.chart.convertFromPixel({ xAxisIndex: 0 }, x);
  }

  /** Dragging over a chart zooms its horizontal axis, Ctrl and the wheel too; a double click shows all of it again. */
  private drag(): void {
    const cover = el("div", { class: "drag" });
    let begin: number | null = null;
    const place = this.place;
    const within = (event: MouseEvent) => {
      const grid = this.chart.getModel().getComponent("grid", 0).coordinateSystem.getRect();
      const x = event.clientX - place.getBoundingClientRect().left;
      return { x: Math.min(Math.max(x, grid.x), grid.x + grid.width), grid };
    };
    place.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || this.chart === null) return;
      begin = within(event).x;
      place.setPointerCapture(event.pointerId);
    });
    place.addEventListener("pointermove", (event) => {
      if (begin === null) return;
      const { x, grid } = within(event);
      if (Math.abs(x - begin) < LEAST_DRAG_PX) return;
      if (!cover.isConnected) this.element.append(cover);
      cover.style.cssText = `left:${Math.min(begin, x)}px;width:${Math.abs(x - begin)}px;top:${place.offsetTop + grid.y}px;height:${grid.height}px`;
    });
    const end = (event: PointerEvent) => {
      const from = begin;
      begin = null;
      cover.remove();
      if (from === null || event.type === "pointercancel") return;
      const { x } = within(event);
      if (Math.abs(x - from) < LEAST_DRAG_PX) return;
      const [low, high] = [this.value(Math.min(from, x)), this.value(Math.max(from, x))];
      if (low < high) this.zoomTo([low, high]);
    };
    place.addEventListener("pointerup", end);
    place.addEventListener("pointercancel", end);
    place.addEventListener("dblclick", () => this.zoomTo(null));
    place.addEventListener("wheel", (event) => {
      if (!event.ctrlKey || this.chart === null) return;
      event.preventDefault();
      const { x, grid } = within(event);
      const factor = event.deltaY < 0 ? 0.7 : 1 / 0.7;
      const ends = [x - (x - grid.x) * factor, x + (grid.x + grid.width - x) * factor];
      const [low, high] = [this.value(ends[0] as number), this.value(ends[1] as number)];
      if (low < high && Number.isFinite(low) && Number.isFinite(high)) this.zoomTo([low, high]);
    }, { passive: false });
  }

  private saveSvg(): void {
    const size = { width: this.place.clientWidth, height: this.place.clientHeight };
    const copy: Any = echarts.init(null, null, { renderer: "svg", ssr: true, ...size });
    copy.setOption({
      ...this.panel.draw(this.scene, size.width, this.zoom),
      backgroundColor: this.scene.theme.page,
    });
    save(`${this.file}.svg`, "image/svg+xml", copy.renderToSVGString());
    copy.dispose();
  }
}

/** A figure on the page. */
export class Drawn {
  readonly element: HTMLElement;
  private charts: Chart[] = [];
  private readonly panels = el("div", { class: "panels" });
  private readonly behind: HTMLDetailsElement;
  private readonly key = el("div", {});
  private readonly seen: IntersectionObserver;
  private readonly sizes: ResizeObserver;

  constructor(
    private readonly figure: Figure,
    private readonly scene: Scene,
  ) {
    if (figure.two) this.panels.classList.add("two");
    this.element = el("section", { class: "figure", id: figure.id, "aria-label": figure.title });
    const file = `${figure.id}.csv`;
    const toCsv = button("Save CSV", "Save the table of this figure", () => save(file, "text/csv", csv(figure.table())));
    const top = el("div", { class: "top" }, el("h3", {}, figure.title), el("div", { class: "tools" }, toCsv));
    this.element.append(top, el("p", { class: "dim" }, figure.note));
    const controls = figure.controls?.(() => this.rebuild()) ?? [];
    if (controls.length) this.element.append(el("div", { class: "controls" }, ...controls));
    this.behind = el("details", {}, el("summary", {}, "Table"));
    this.behind.addEventListener("toggle", () => this.showTable());
    this.element.append(this.panels, this.key, this.behind);
    // A chart is drawn when it is about to be seen, so that a page with a hundred charts opens at once.
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const chart = this.charts.find((chart) => chart.element === entry.target);
        if (entry.isIntersecting && chart && !chart.isDrawn) chart.draw();
      }
    }, { rootMargin: "400px" });
    let width = 0;
    this.sizes = new ResizeObserver(() => {
      if (this.panels.clientWidth === width) return;
      width = this.panels.clientWidth;
      for (const chart of this.charts) chart.resize();
    });
    this.sizes.observe(this.panels);
    this.rebuild();
  }

  /** After a change of what is shown: the panels may be others. */
  rebuild(): void {
    const panels = this.figure.panels();
    const same = panels.length === this.charts.length && panels.every((panel, at) => panel.title === this.charts[at]?.panel.title);
    if (same) {
      panels.forEach((panel, at) => ((this.charts[at] as Chart).panel = panel));
    } else {
      this.seen.disconnect();
      this.charts = panels.map((panel, at) => new Chart(panel, this.scene, `${this.figure.id}-${at + 1}`));
      this.panels.replaceChildren(...this.charts.map((chart) => chart.element));
      for (const chart of this.charts) this.seen.observe(chart.element);
    }
    this.redraw(false);
    this.behind.querySelector(":scope > :not(summary)")?.remove();
    this.showTable();
  }

  /** After a change of theme or of the contenders shown. For print, every chart. */
  redraw(all: boolean): void {
    for (const chart of this.charts) if (all || chart.isDrawn) chart.draw();
    this.key.replaceChildren(...[this.figure.key?.(this.scene) ?? null].filter((key) => key !== null));
  }

  private showTable(): void {
    if (this.behind.open && this.behind.children.length === 1) this.behind.append(table(this.figure.table()));
  }
}
