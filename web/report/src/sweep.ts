// The figures of a sweep: a map over two keys, and lines over one.

import { type Any, base, mark, whisker, xAxis, yAxis } from "./chart";
import type { Dimension, Input, SweepPoint, Row } from "./results";
import { type Cell, choice, el, tip } from "./dom";
import { type Figure, lineStyle, type Panel, type Scene } from "./figure";
import { interval, list, percent, percentTick, rate, seconds, signed } from "./format";
import { median } from "./stats";
import { diverging, type Theme } from "./theme";
import { classes, hasGoodput, titled, type Words, words } from "./traffic";

type Sweep = Extract<Input, { kind: "sweep" }>;
type Value = number | string;

/** A contender at a point. */
/** The mean difference from the reference. */
const apart = (row: Row): number | null => row.vs_reference_pct?.mean ?? null;

interface Entry { point: SweepPoint; row: Row }

const READINGS: Record<string, string> = {
  better: "better than the reference",
  worse: "worse than the reference",
  equal: "practically equal",
  undecided: "cannot be told apart from the reference",
  incomplete: "flows did not finish",
};
/** A grid with more cells than this has no numbers in them. */
const MOST_LABELS = 150;
/** A logarithmic axis has a tick at each value, if there are not more. */
const MOST_TICKS = 10;
/** The distance in pixels between the marks of contenders that are side by side. */
const ASIDE = 4;
/** The least space beside the first and the last value of a key, as a share of the distance between them. */
const MARGIN = 0.07;
/** A continuous design has about a value of its own at each point. */
const ALL = "all values";

export class SweepFigures {
  readonly contenders: string[];
  private readonly conditions: string[];
  /** The classes of traffic, or null alone. */
  private readonly traffics: (string | null)[];
  private readonly kinds: (string | undefined)[];
  private readonly values: Value[][];
  private readonly isGrid: boolean;
  /** The difference that has the strongest colour, for each class. */
  private readonly most: number[];

  constructor(
    private readonly sweep: Sweep,
    private readonly prefix: string,
  ) {
    const rows = sweep.results.flatMap((point) => point.rows);
    this.contenders = [...new Set(rows.map((row) => row.scheduler))];
    this.conditions = [...new Set(rows.map((row) => row.condition))];
    this.traffics = classes(rows);
    this.kinds = this.traffics.map((traffic) => rows.find((row) => (row.traffic ?? null) === traffic)?.kind);
    this.isGrid = sweep.design === "grid";
    this.values = sweep.dimensions.map((_, at) => {
      const values = [...new Set(sweep.results.map((point) => point.values[at] as Value))];
      return values.every((value) => typeof value === "number") ? values.sort((a, b) => a - b) : values;
    });
    this.most = this.traffics.map((traffic) => {
      const sizes = rows.filter((row) => (row.traffic ?? null) === traffic).map((row) => apart(row))
        .filter((value) => value !== null).map(Math.abs).sort((a, b) => a - b);
      return Math.max(1, sizes[Math.floor(0.95 * (sizes.length - 1))] ?? 1);
    });
  }

  private words(traffic: number): Words {
    return words(this.traffics[traffic] ?? null, this.kinds[traffic]);
  }

  /** The contenders that are compared with the reference. */
  private get compared(): string[] {
    const known = new Set(this.sweep.results.flatMap((point) => point.rows.filter((row) => apart(row) !== null || row.reading)
      .map((row) => row.scheduler)));
    return this.contenders.filter((name) => known.has(name));
  }

  /** The reference, if there is one. */
  get reference(): string | null {
    const others = this.contenders.filter((name) => !this.compared.includes(name) && !name.startsWith("tcp beside") && !name.startsWith("tcp@"));
    return this.compared.length ? (others[0] ?? null) : null;
  }

  /** What the sweep found, in words: a sentence for each contender, with classes for each of them in each class. */
  verdict(): string[] {
    const points = this.sweep.results.length;
    const reference = this.reference ?? "the reference";
    return this.traffics.flatMap((traffic, at) => this.compared.flatMap((name) => {
      const own = (row: Row) => row.scheduler === name && (row.traffic ?? null) === traffic;
      const rows = this.sweep.results.flatMap((point) => point.rows.filter(own));
      if (!rows.length) return [];
      const of = (reading: string) => rows.filter((row) => row.reading === reading).length;
      const parts = [
        [of("better"), `better than ${reference}`],
        [of("worse"), of("better") ? "worse" : `worse than ${reference}`],
        [of("equal"), "practically equal"],
        [of("undecided"), "cannot be told apart with this number of runs"],
        [of("incomplete"), `cannot be compared, as ${traffic === null ? "flows" : this.words(at).many} did not finish`],
      ].filter(([count]) => count !== 0).map(([count, what]) => `${count} ${what}`);
      const where = this.conditions.length > 1 ? `${rows.length} points and conditions` : `${points} points`;
      const compared = rows.filter((row) => row.reading !== "incomplete");
      const middle = median(compared.map((row) => apart(row)).filter((value) => value !== null));
      const typical = middle === null ? "" : ` The median of its differences is ${signed(middle)}.`;
      return [titled(traffic, `${name}, of ${where}: ${list(parts)}.${typical}`)];
    }));
  }

  figures(): Figure[] {
    if (!this.sweep.results.length || !this.sweep.dimensions.length) return [];
    return [this.sweep.dimensions.length > 1 && this.compared.length ? this.map() : null, this.lines()].filter((figure) => figure !== null);
  }

  private entries(name: string, state: State): Entry[] {
    const found: Entry[] = [];
    const [condition, traffic] = [this.conditions[state.condition], this.traffics[state.traffic]];
    for (const point of this.sweep.results) {
      if (![...state.fixed].every(([at, value]) => point.values[at] === value)) continue;
      const row = point.rows.find((row) => row.scheduler === name && row.condition === condition && (row.traffic ?? null) === traffic);
      if (row) found.push({ point, row });
    }
    return found;
  }

  private dimension(at: number): Dimension {
    return this.sweep.dimensions[at] as Dimension;
  }

  private tip(entry: Entry): HTMLElement {
    const { point, row } = entry;
    const keys = this.sweep.dimensions.map((dimension, at): [string, string] => [dimension.name, written(point.values[at] as Value, dimension)]);
    const { time, many, done } = this.words(this.traffics.indexOf(row.traffic ?? null));
    const more: [string, string][] = [];
    if (hasGoodput(row.traffic ?? null, row.kind)) {
      more.push(["goodput of a flow", `${rate(row.goodput_bps)} (${interval(row.goodput_ci95_bps, rate)})`]);
    }
    if (row.video?.stalled_s != null) more.push(["stalled", seconds(row.video?.stalled_s)]);
    if (row.video?.bitrate_bps != null) more.push(["bitrate", rate(row.video?.bitrate_bps)]);
    if (row.datagrams) more.push(["datagrams lost", percent(100 * row.datagrams.lost_ratio)]);
    return tip(titled(row.traffic ?? null, row.scheduler), [
      ...keys,
      ["difference", `${signed(apart(row))} (${interval((row.vs_reference_pct?.ci95 ?? null), signed)})`],
      ["reading", row.reading ? (READINGS[row.reading] ?? row.reading) : "the reference"],
      [`mean ${time}`, `${seconds(row.fct_s.mean)} (${interval(row.fct_s.ci95, seconds)})`],
      ...more,
      [done, `${row.completed} of ${row.n} ${many} in ${point.runs} runs`],
      ["point", String(point.point)],
    ]);
  }

  private selectors(state: State, keys: number[], redraw: () => void): HTMLElement {
    const box = el("span", { class: "controls" });
    const fill = () => {
      const selects: HTMLElement[] = [];
      const changed = (change: () => void) => {
        change();
        fill();
        redraw();
      };
      const names = this.sweep.dimensions.map((dimension) => dimension.name);
      keys.forEach((_, place) => {
        selects.push(choice(keys.length === 1 ? "Key" : place === 0 ? "Across" : "Up", names, state.keys[place] as number, (at) => changed(() => {
          const other = state.keys.findIndex((key, where) => key === at && where !== place);
          if (other >= 0) state.keys[other] = state.keys[place] as number;
          state.keys[place] = at;
        })));
      });
      if (this.conditions.length > 1) {
        selects.push(choice("Condition", this.conditions, state.condition, (at) => changed(() => (state.condition = at))));
      }
      if (this.traffics.length > 1) {
        selects.push(choice("Traffic", this.traffics.map((traffic) => traffic ?? "without a class"), state.traffic,
          (at) => changed(() => (state.traffic = at))));
      }
      this.sweep.dimensions.forEach((dimension, at) => {
        const values = this.values[at] as Value[];
        if (state.keys.includes(at) || (!this.isGrid && values.length > 20)) {
          state.fixed.delete(at);
          return;
        }
        // A cell of a grid is one point: the keys that are not on an axis have one value each.
        const all = !this.isGrid;
        if (!all && !state.fixed.has(at)) state.fixed.set(at, values[0] as Value);
        const options = [...(all ? [ALL] : []), ...values.map((value) => written(value, dimension))];
        const fixed = state.fixed.get(at);
        const selected = fixed === undefined ? 0 : values.indexOf(fixed) + (all ? 1 : 0);
        selects.push(choice(dimension.name, options, selected, (chosen) => changed(() => {
          const value = values[chosen - (all ? 1 : 0)];
          if (value === undefined) state.fixed.delete(at);
          else state.fixed.set(at, value);
        })));
      });
      box.replaceChildren(...selects);
    };
    fill();
    return box;
  }

  private map(): Figure {
    const state: State = { keys: [0, 1], condition: 0, traffic: 0, fixed: new Map() };
    const what = this.isGrid ? "Each cell is a point of the sweep" : "Each mark is a point of the sweep";
    return {
      id: `${this.prefix}-map`,
      title: `Where each contender pays, against ${this.reference ?? "the reference"}`,
      note: `${what}; its colour is the difference, in percent: blue is better, orange worse. ` +
        `${this.isGrid ? "An empty one with a question mark" : "A small hollow one"} cannot be told apart from the reference with this ` +
        "number of runs; a cross marks flows that did not finish.",
      two: true,
      controls: (redraw) => [this.selectors(state, [0, 1], redraw)],
      panels: () => this.compared.map((name): Panel => ({
        title: titled(this.traffics[state.traffic] ?? null, name),
        label: `Map of the difference of ${titled(this.traffics[state.traffic] ?? null, name)} over ${this.dimension(state.keys[0] as number).name} and ${this.dimension(state.keys[1] as number).name}`,
        height: (scene) => (scene.hidden.has(name) ? 60 : this.isGrid ? 110 + 38 * Math.min(12, Math.max(5, this.values[state.keys[1] as number]?.length ?? 5)) : 400),
        draw: (scene, width, zoom) => {
          if (scene.hidden.has(name)) return hiddenNote(scene);
          const entries = this.entries(name, state);
          return this.isGrid ? this.cells(entries, state, scene, width) : this.marks(entries, state, scene, zoom);
        },
      })),
      key: (scene) => this.key(scene, this.most[state.traffic] as number),
      table: () => this.table(),
    };
  }

  private key(scene: Scene, strongest: number): HTMLElement {
    const stop = (better: boolean, strength: number) => diverging(better, strength, scene.theme);
    const scale = el("span", { class: "scale" });
    scale.style.background = `linear-gradient(to right, ${stop(true, 1)}, ${stop(true, 0)} 50%, ${stop(false, 0)} 50%, ${stop(false, 1)})`;
    const most = `${strongest.toFixed(strongest < 10 ? 1 : 0)} %`;
    return el("div", { class: "key" }, el("span", {}, `better by ${most} or more `, scale, ` worse by ${most} or more`),
      el("span", {}, `${this.isGrid ? "?" : "\u25cb"} cannot be told apart`), el("span", {}, "\u00d7 flows did not finish"));
  }

  /** The size of a difference, of that with the strongest colour of its class. */
  private strength(row: Row): number {
    const most = this.most[this.traffics.indexOf(row.traffic ?? null)] ?? 1;
    return Math.abs(apart(row) ?? 0) / most;
  }

  private colour(row: Row, theme: Theme): string {
    const size = apart(row) ?? 0;
    // For bulk more is better: the reading says so where it is certain, otherwise the sign of a time.
    const isBulk = row.fct_s.mean === null && hasGoodput(row.traffic ?? null, row.kind);
    return diverging(isBulk ? size > 0 : size < 0, this.strength(row), theme);
  }

  private cells(entries: Entry[], state: State, scene: Scene, width: number): Any {
    const [kx, ky] = state.keys as [number, number];
    const [xs, ys] = [this.values[kx] as Value[], this.values[ky] as Value[]];
    const space = Math.max(48, Math.min(120, 7 * Math.max(...ys.map((value) => short(value).length)) + 12));
    const labelled = xs.length * ys.length <= MOST_LABELS && (width - space) / xs.length > 38;
    const places = entries.map(({ point }) => [xs.indexOf(point.values[kx] as Value), ys.indexOf(point.values[ky] as Value)]);
    const category = (values: Value[], dimension: Dimension, more: Any) => ({
      type: "category",
      data: values.map((_, at) => String(at)),
      name: named(dimension),
      nameTextStyle: { color: scene.theme.dim, fontSize: 12 },
      axisLine: { lineStyle: { color: scene.theme.dim } },
      axisTick: { show: false },
      ...more,
      axisLabel: { color: scene.theme.text, fontSize: 12, hideOverlap: true, width: 110, overflow: "truncate",
        formatter: (at: string) => short(values[Number(at)] as Value) },
    });
    return {
      ...base(scene.theme),
      grid: { left: space, right: 16, top: 32, bottom: 48 },
      xAxis: category(xs, this.dimension(kx), { nameLocation: "middle", nameGap: 28 }),
      yAxis: category(ys, this.dimension(ky), { nameLocation: "end",
        nameTextStyle: { color: scene.theme.dim, fontSize: 12, align: "left", padding: [0, 0, 0, -space + 8] } }),
      series: [{
        type: "custom",
        data: places,
        encode: { x: 0, y: 1 },
        renderItem: (_: Any, api: Any): Any => {
          const entry = entries[_.dataIndex];
          if (!entry) return null;
          const [w, h] = api.size([1, 1]);
          const [x, y] = api.coord([api.value(0), api.value(1)]);
          const { row } = entry;
          const inner = { x: x - w / 2 + 1, y: y - h / 2 + 1, width: w - 2, height: h - 2 };
          const certain = row.reading !== "undecided" && row.reading !== "incomplete";
          const fill = this.colour(row, scene.theme);
          const children: Any[] = [{ type: "rect", shape: inner, style: certain ? { fill }
            : { fill: scene.theme.page, stroke: scene.theme.line, lineWidth: 1 } }];
          if (row.reading === "undecided") {
            // A stripe of its colour: the value is there, but it is not certain.
            children.push({ type: "rect", shape: { ...inner, height: Math.max(3, inner.height * 0.12) }, style: { fill } });
          }
          const text = row.reading === "incomplete" ? "\u00d7"
            : labelled ? `${signed(apart(row)).replace(" %", "")}${certain ? "" : " ?"}` : certain ? "" : "?";
          const size = this.strength(row);
          const ink = certain && size > 0.45 ? "#ffffff" : certain ? scene.theme.text : scene.theme.dim;
          children.push({ type: "text", style: { text, x, y, align: "center", verticalAlign: "middle", fill: ink, fontSize: 12,
            width: w - 2, overflow: "truncate" } });
          return { type: "group", children };
        },
        tooltip: { formatter: (found: Any) => this.tip(entries[found.dataIndex] as Entry) },
      }],
    };
  }

  private marks(entries: Entry[], state: State, scene: Scene, zoom: [number, number] | null): Any {
    const [kx, ky] = state.keys as [number, number];
    const place = (entry: Entry, key: number) => {
      const value = entry.point.values[key] as Value;
      return typeof value === "number" ? value : (this.values[key] as Value[]).indexOf(value);
    };
    return {
      ...base(scene.theme),
      grid: { left: 60, right: 20, top: 32, bottom: 48 },
      xAxis: this.axis(kx, scene, zoom, xAxis),
      yAxis: this.axis(ky, scene, null, (theme, name, _, write, more) => yAxis(theme, name, write, more)),
      series: [{
        type: "custom",
        clip: true,
        data: entries.map((entry) => [place(entry, kx), place(entry, ky)]),
        encode: { x: 0, y: 1 },
        renderItem: (_: Any, api: Any): Any => {
          const entry = entries[_.dataIndex];
          if (!entry) return null;
          const at = api.coord([api.value(0), api.value(1)]);
          const colour = this.colour(entry.row, scene.theme);
          if (entry.row.reading === "incomplete") {
            return { type: "text", style: { text: "\u00d7", x: at[0], y: at[1], align: "center", verticalAlign: "middle", fill: scene.theme.text, fontSize: 18 } };
          }
          if (entry.row.reading === "undecided") return mark("circle", at, 9, scene.theme.dim, scene.theme.page);
          return { ...mark("circle", at, 14, scene.theme.text, colour), style: { fill: colour, stroke: scene.theme.text, lineWidth: 0.75 } };
        },
        tooltip: { formatter: (found: Any) => this.tip(entries[found.dataIndex] as Entry) },
      }],
    };
  }

  /** A continuous axis for a key, or one with the place of each text. */
  private axis(key: number, scene: Scene, zoom: [number, number] | null,
    make: (theme: Theme, name: string, zoom: [number, number] | null, write: (value: number) => string, more: Any) => Any, margin = MARGIN): Any {
    const dimension = this.dimension(key);
    const values = this.values[key] as Value[];
    if (dimension.unit === null) {
      const write = (at: number) => short(values[at] ?? "");
      // The ends are half a place beyond the first and the last text, so ticks of equal distances from an end meet none of them.
      const [low, high] = [zoom?.[0] ?? -0.5, zoom?.[1] ?? values.length - 0.5];
      const ticks = { customValues: values.map((_, at) => at).filter((at) => at >= low && at <= high) };
      const label = { ...ticks, showMinLabel: true, showMaxLabel: true, width: 110, overflow: "truncate" };
      return make(scene.theme, named(dimension), zoom, write, { min: low, max: high,
        axisTick: { lineStyle: { color: scene.theme.dim }, ...ticks }, axisLabel: label });
    }
    const type = dimension.logarithmic ? { type: "log" } : {};
    if (zoom) return make(scene.theme, named(dimension), zoom, short, type);
    // The marks at the first and the last value need space beside them; and a logarithmic axis would otherwise reach to the next
    // powers of ten, and have ticks there alone.
    const numbers = values.filter((value) => typeof value === "number");
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const factor = (high / low) ** margin;
    const space = margin * (high - low) || margin * Math.abs(high) || 1;
    const ends = dimension.logarithmic ? { min: low / factor, max: high * factor } : { min: low - space, max: high + space };
    const ticks = numbers.length <= MOST_TICKS ? { customValues: numbers } : {};
    return make(scene.theme, named(dimension), zoom, short, { ...type, ...ends,
      axisTick: { lineStyle: { color: scene.theme.dim }, ...ticks },
      axisLabel: { ...ticks, showMinLabel: "customValues" in ticks, showMaxLabel: "customValues" in ticks } });
  }

  private lines(): Figure {
    const state: State = { keys: [0], condition: 0, traffic: 0, fixed: new Map() };
    let chosen = 0;
    const show = el("span", { class: "controls" });
    const measures = () => this.measures(state.traffic);
    const fill = (redraw: () => void) => show.replaceChildren(choice("Show", measures().map((measure) => measure.name), chosen, (at) => {
      chosen = at;
      redraw();
    }));
    return {
      id: `${this.prefix}-lines`,
      title: "Over one key",
      note: "Means with their 95 % intervals" + (this.isGrid ? "; the other keys have the values that are chosen."
        : "; each mark is a point of the sweep, in which the other keys differ as well."),
      controls: (redraw) => {
        fill(redraw);
        let traffic = state.traffic;
        const selectors = this.selectors(state, [0], () => {
          // Another class has other measures.
          if (traffic !== state.traffic) {
            traffic = state.traffic;
            chosen = 0;
            fill(redraw);
          }
          redraw();
        });
        return [show, selectors];
      },
      panels: () => [{
        title: this.traffics[state.traffic] ?? "",
        label: `${measures()[chosen]?.name} over ${this.dimension(state.keys[0] as number).name}`,
        height: () => 420,
        draw: (scene, width, zoom) => this.overOne(state, measures()[chosen] as Measure, scene, width, zoom),
      }],
      table: () => this.table(),
    };
  }

  /** The measures of a class that any of its rows has. */
  private measures(at: number): Measure[] {
    const traffic = this.traffics[at] ?? null;
    const none = (value: number | undefined) => ({ value: value ?? null, ends: null });
    const all: Measure[] = [
      ...(this.compared.length ? [{ name: `difference from ${this.reference ?? "the reference"}, %`, isDifference: true, write: percentTick,
        of: (row: Row) => ({ value: apart(row), ends: (row.vs_reference_pct?.ci95 ?? null) }) }] : []),
      { name: `mean ${this.words(at).time}`, write: seconds, of: (row) => ({ value: row.fct_s.mean, ends: row.fct_s.ci95 }) },
      ...(hasGoodput(traffic, this.kinds[at]) ? [{ name: "goodput of a flow", write: rate,
        of: (row: Row) => ({ value: row.goodput_bps, ends: row.goodput_ci95_bps }) }] : []),
      { name: "time in stalls, mean", write: seconds, of: (row) => none(row.video?.stalled_s) },
      { name: "mean bitrate", write: rate, of: (row) => none(row.video?.bitrate_bps ?? undefined) },
      { name: "datagrams lost, %", write: percentTick, of: (row) => none(row.datagrams === undefined ? undefined : 100 * row.datagrams.lost_ratio) },
    ];
    const rows = this.sweep.results.flatMap((point) => point.rows.filter((row) => (row.traffic ?? null) === traffic));
    return all.filter((measure) => rows.some((row) => measure.of(row).value !== null));
  }

  private overOne(state: State, measure: Measure, scene: Scene, width: number, zoom: [number, number] | null): Any {
    const key = state.keys[0] as number;
    const place = (entry: Entry) => {
      const value = entry.point.values[key] as Value;
      return typeof value === "number" ? value : (this.values[key] as Value[]).indexOf(value);
    };
    const shown = this.contenders.filter((name) => !scene.hidden.has(name));
    const series = shown.flatMap((name, order) => {
      const entries = this.entries(name, state).filter(({ row }) => measure.of(row).value !== null)
        .sort((a, b) => place(a) - place(b));
      // Side by side, so that no interval hides another.
      const aside = this.isGrid ? ASIDE * (order - (shown.length - 1) / 2) : 0;
      const style = scene.styles.get(name);
      const colour = scene.colour(name);
      const points = {
        type: "custom",
        clip: true,
        z: 4,
        data: entries.map((entry) => [place(entry), measure.of(entry.row).value, ...(measure.of(entry.row).ends ?? [])]),
        encode: { x: 0, y: [1, 2, 3] },
        renderItem: (found: Any, api: Any): Any => {
          const entry = entries[found.dataIndex];
          if (!entry) return null;
          const { ends } = measure.of(entry.row);
          const at = (value: number) => {
            const [x, y] = api.coord([api.value(0), value]);
            return [x + aside, y];
          };
          const hollow = entry.row.reading === "undecided" || entry.row.reading === "incomplete";
          const dot = mark(style?.symbol ?? "circle", at(api.value(1)), this.isGrid ? 9 : 7, colour, hollow ? scene.theme.page : colour);
          const line = ends ? whisker(at(ends[0]), at(ends[1]), colour, this.isGrid ? 4 : 0, this.isGrid ? 1.5 : 1) : null;
          return { type: "group", children: line ? [line, dot] : [dot] };
        },
        tooltip: { formatter: (found: Any) => this.tip(entries[found.dataIndex] as Entry) },
      };
      const { color: stroke, width: lineWidth, type: dash } = lineStyle(scene, name, 1.5);
      const line = {
        type: "custom",
        clip: true,
        silent: true,
        data: entries.slice(0, 1).map((entry) => [place(entry), measure.of(entry.row).value]),
        encode: { x: 0, y: 1 },
        renderItem: (_: Any, api: Any): Any => {
          const points = entries.map((entry) => {
            const [x, y] = api.coord([place(entry), measure.of(entry.row).value]);
            return [x + aside, y];
          });
          return { type: "polyline", shape: { points }, style: { stroke, lineWidth, lineDash: dash, fill: "none" } };
        },
      };
      const zero = { silent: true, symbol: "none", label: { show: false }, data: [{ yAxis: 0 }],
        lineStyle: { color: scene.theme.text, type: "solid", width: 1 } };
      if (measure.isDifference && order === 0) Object.assign(points, { markLine: zero });
      return this.isGrid ? [line, points] : [points];
    });
    // The outermost marks with half of their width are within the axis, however narrow it is.
    const beside = 8 + (this.isGrid ? ASIDE * (shown.length - 1) / 2 : 0);
    const margin = Math.max(MARGIN, beside / Math.max(1, width - 108 - 2 * beside));
    return {
      ...base(scene.theme),
      grid: { left: 84, right: 24, top: 36, bottom: 48 },
      xAxis: this.axis(key, scene, zoom, xAxis, margin),
      yAxis: yAxis(scene.theme, measure.name, measure.write),
      series,
    };
  }

  private table() {
    const classed = this.traffics.some((traffic) => traffic !== null);
    return {
      columns: ["point", ...this.sweep.dimensions.map(named), "runs", "condition", ...(classed ? ["traffic"] : []), "contender", "difference %",
        "low %", "high %", "reading", "mean s", "mean low s", "mean high s", "goodput bit/s", "goodput low bit/s", "goodput high bit/s", "flows",
        "delivered", ...(classed ? ["stalled s", "bitrate bit/s", "datagrams lost, of those sent"] : [])],
      rows: this.sweep.results.flatMap((point) => point.rows.map((row): Cell[] => [point.point, ...point.values, point.runs, row.condition,
        ...(classed ? [row.traffic ?? null] : []), row.scheduler, apart(row), ...(row.vs_reference_pct?.ci95 ?? [null, null]), row.reading ?? null,
        row.fct_s.mean, ...(row.fct_s.ci95 ?? [null, null]), row.goodput_bps, ...(row.goodput_ci95_bps ?? [null, null]), row.n, row.completed,
        ...(classed ? [row.video?.stalled_s ?? null, row.video?.bitrate_bps ?? null, row.datagrams?.lost_ratio ?? null] : [])])),
    };
  }
}

/** What the selects of a figure have chosen: the keys on its axes, the condition, the class of traffic, and the values of other keys. */
interface State { keys: number[]; condition: number; traffic: number; fixed: Map<number, Value> }

interface Measure {
  name: string;
  /** True for a difference, which has a line at 0. */
  isDifference?: boolean;
  write(value: number): string;
  of(row: Row): { value: number | null; ends: [number, number] | null };
}

const named = (dimension: Dimension): string => (dimension.unit ? `${dimension.name}, ${dimension.unit}` : dimension.name);
const short = (value: Value): string => (typeof value === "number" ? String(+value.toPrecision(4)) : value);
const written = (value: Value, dimension: Dimension): string => (dimension.unit ? `${short(value)} ${dimension.unit}` : short(value));

function hiddenNote(scene: Scene): Any {
  return { ...base(scene.theme), title: undefined, series: [] };
}
