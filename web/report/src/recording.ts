// The figures of recorded runs: what happened in them over time.

import { type Any, base, nameWidth, rowAxes, rowGrid, xAxis, yAxis } from "./chart";
import type { Input, RecordedFlow, RecordedRun, Stream } from "./results";
import { type Cell, choice, el, tip } from "./dom";
import { type Figure, lineStyle, type Panel, type Range, type Scene } from "./figure";
import { forest } from "./forest";
import { bytes, count, digits, exactly, pathName, percent, plain, rate, seconds } from "./format";
import { bars, Column, lastAtMost, steps } from "./series";
import { stackedBars } from "./stacked";
import { distribution, firstAbove, sorted } from "./stats";
import { pathColour, subflowDash } from "./theme";
import { classes, hasGoodput, titled } from "./traffic";

type Recording = Extract<Input, { kind: "recording" }>;

const NS = 1e9;
/** The kinds of data sent, as `sent.kind` numbers them, and how the figure shows each. */
const KINDS = ["sent", "retransmitted", "reinjected", "probe"];
/** With more than this many in view, retransmissions and reinjections have no symbols. */
const MOST_MARKS = 150;

/** The pixels of a subflow in a column. */
const SLOT = 3;

/** A run with its columns. */
interface Run {
  of: RecordedRun;
  streams: { of: Stream; sent: Record<"t_ns" | "from" | "to" | "subflow" | "kind", Column>; acks: Record<"t_ns" | "ack" | "edge", Column>;
    subflows: Map<string, Column>[] }[];
  queues: { link: string; t_ns: Column; bytes: Column; dropped: Column }[];
}
type Flow = Run["streams"][number];

export class RecordingFigures {
  readonly contenders: string[];
  /** The names of subflows, whose buttons show and hide them. */
  readonly subflows: string[];
  private readonly runs: Run[];
  private readonly conditions: string[];
  private readonly flows: number[];
  private chosen: number;
  private readonly redraws: (() => void)[] = [];

  constructor(
    private readonly recording: Recording,
    private readonly prefix: string,
  ) {
    this.runs = recording.runs.map((of) => ({
      of,
      streams: of.streams.map((stream) => ({
        of: stream,
        sent: columns(stream.sent),
        acks: columns(stream.acks),
        subflows: stream.subflows.map((subflow) => new Map(
          [["t_ns", subflow.t_ns], ["cwnd_bytes", subflow.cwnd_bytes], ["ssthresh_bytes", subflow.ssthresh_bytes],
            ["inflight_bytes", subflow.inflight_bytes], ["srtt_us", subflow.srtt_us]].map(([key, packed]) =>
            [key as string, new Column(packed as string)]))),
      })),
      queues: of.queues.map((queue) => ({ link: queue.link, t_ns: new Column(queue.t_ns), bytes: new Column(queue.bytes),
        dropped: new Column(queue.dropped) })),
    }));
    this.contenders = [...new Set(recording.runs.map((run) => run.scheduler))];
    this.conditions = [...new Set(recording.runs.map((run) => run.condition))];
    this.subflows = [...new Set(recording.runs.flatMap((run) => run.streams.flatMap((stream) => stream.subflows.map((subflow) => subflow.name))))];
    this.flows = [...new Set(recording.runs.flatMap((run) => run.streams.map((stream) => stream.flow)))];
    this.chosen = recording.flow ?? this.flows[0] ?? 0;
  }

  figures(): Figure[] {
    const found: (Figure | null)[] = [
      this.sequence(),
      this.windows(),
      this.roundTrips(),
      this.queues(),
      this.reordering(),
      this.paths(),
      this.goodput(),
      ...this.timedClasses().map((traffic, at) => this.completion(traffic, at)),
      this.jain(),
    ];
    return found.filter((figure) => figure !== null);
  }

  private title(run: RecordedRun): string {
    return [this.conditions.length > 1 ? run.condition : "", run.scheduler, run.complete ? "" : "(interrupted)"].filter(Boolean).join(" ");
  }

  private flowName(flow: number): string {
    return this.recording.runs.find((run) => run.flows[flow])?.flows[flow]?.name ?? String(flow + 1);
  }

  /** A select of the flow, if there are several; all figures of this recording change with it. */
  private flowChoice(redraw: () => void): HTMLElement[] {
    this.redraws.push(redraw);
    if (this.flows.length < 2) return [];
    const select = choice("Flow", this.flows.map((flow) => this.flowName(flow)), this.flows.indexOf(this.chosen), (at) => {
      this.chosen = this.flows[at] as number;
      for (const other of document.querySelectorAll<HTMLSelectElement>(`select[data-flow="${this.prefix}"]`)) other.selectedIndex = at;
      for (const each of this.redraws) each();
    });
    select.querySelector("select")?.setAttribute("data-flow", this.prefix);
    return [select];
  }

  private ofFlow(): string {
    const all = this.recording.runs[0]?.flows.length ?? 0;
    return all < 2 ? "" : ` Flow ${this.flowName(this.chosen)} of ${count(all)}${this.flows.length > 1 || this.recording.flow !== null ? "" :
      ": the slowest one"}.`;
  }

  /** A panel for each run that has the chosen flow. */
  private each(panel: (run: Run, flow: Flow) => Panel | null): Panel[] {
    return this.runs.map((run) => {
      const flow = run.streams.find((stream) => stream.of.flow === this.chosen);
      if (flow && !flow.sent.t_ns.values.length) return this.empty(run);
      return flow ? panel(run, flow) : null;
    }).filter((panel) => panel !== null);
  }

  /** The place of a run whose chosen flow has sent nothing. */
  private empty(run: Run): Panel {
    const title = `${this.title(run.of)}: flow ${this.flowName(this.chosen)} sent no data in this run`;
    return { title, label: title, height: () => 8, draw: (scene) => ({ ...base(scene.theme), series: [] }) };
  }

  /** The end of the time axis of a run: all runs of a condition have the same. */
  private end(run: Run): number {
    return Math.max(...this.recording.runs.filter((other) => other.condition === run.of.condition).map((other) => other.end_ns)) / NS;
  }

  private get hasFlows(): boolean {
    return this.runs.some((run) => run.streams.length > 0);
  }

  /** The key of the subflows' colours. */
  private key(scene: Scene, more: HTMLElement[] = [], dashed = true): HTMLElement {
    const all = this.subflows.map((name, at) =>
      el("span", {}, line(pathColour(at, scene.theme), dashed ? subflowDash(at) : []), el("bdi", {}, name)));
    return el("div", { class: "key" }, ...all, ...more);
  }

  private isHidden(scene: Scene, run: Run, subflow: string): boolean {
    return scene.hidden.has(run.of.scheduler) || scene.hidden.has(hiddenSubflow(subflow));
  }

  private sequence(): Figure | null {
    if (!this.hasFlows) return null;
    const thinned = Math.max(...this.runs.flatMap((run) => run.streams.map((stream) => stream.of.thinned_ns)));
    return {
      id: `${this.prefix}-sequence`,
      title: "Data sequence over time",
      note: "Each vertical line is data sent by one subflow, at its offset in the stream of the connection. Crosses: retransmitted on the same " +
        "subflow; diamonds: reinjected, after another subflow had carried them. The lower staircase is the DATA_ACK at the sender, the dashed one " +
        "the right edge of the receive window. A horizontal gap between data and DATA_ACK is time in the network and in reordering." +
        (thinned ? ` Events closer than ${seconds(thinned / NS)} are one, since there are more than this page holds.` : ""),
      controls: (redraw) => this.flowChoice(redraw),
      panels: () => this.each((run, flow) => {
        const panel: Panel = {
          title: this.title(run.of) + this.ofFlow().replace(/\.$/, "").replace(/^ Flow/, ", flow"),
          label: `Time-sequence graph of ${run.of.scheduler} ${run.of.condition}`,
          height: () => 400,
          draw: (scene, width, zoom) => {
            const { option, points } = this.sequenceChart(run, flow, scene, width, zoom);
            panel.points = points;
            return option;
          },
        };
        return panel;
      }),
      key: (scene) => this.key(scene, [
        el("span", {}, symbol("\u00d7", scene.theme.warn), "retransmitted"),
        el("span", {}, symbol("\u25c7", scene.theme.note), "reinjected"),
        el("span", {}, line(scene.theme.text, []), "DATA_ACK"),
        el("span", {}, line(scene.theme.dim, [5, 3]), "right edge of the window"),
      ], false),
      table: () => this.sequenceTable(),
    };
  }

  private sequenceChart(run: Run, flow: Flow, scene: Scene, width: number, zoom: Range | null): { option: Any; points: number } {
    const [from, to] = zoom ?? [0, this.end(run)];
    const view: [number, number] = [from * NS, to * NS];
    // Where segments are denser than columns, those of each subflow have a place of their own in a column.
    const rows = lastAtMost(flow.sent.t_ns.values, view[1]) - lastAtMost(flow.sent.t_ns.values, view[0]);
    const slots = flow.of.subflows.length;
    const dense = rows > (width - 110) / SLOT;
    const columns = Math.max(100, Math.floor((width - 110) / (dense ? SLOT * slots : 1)));
    const { t_ns, from: low, to: high, subflow, kind } = flow.sent;
    const [t, lows, highs, subflows, kinds] = [t_ns.values, low.values, high.values, subflow.values, kind.values];
    const acks = flow.acks;
    // The range of offsets in view, for the vertical axis and for lines that would be within a pixel of each other.
    let [bottom, top] = [Infinity, -Infinity];
    for (let row = lastAtMost(t, view[0]) + 1; row <= lastAtMost(t, view[1]); row += 1) {
      bottom = Math.min(bottom, lows[row] as number);
      top = Math.max(top, highs[row] as number);
    }
    for (const row of [lastAtMost(acks.t_ns.values, view[0]), lastAtMost(acks.t_ns.values, view[1])]) {
      if (row < 0) continue;
      bottom = Math.min(bottom, acks.ack.values[row] as number);
      top = Math.max(top, acks.ack.values[row] as number);
    }
    if (bottom > top) [bottom, top] = [0, 1];
    const gap = (top - bottom) / 330;
    const series: Any[] = [];
    let points = 0;
    const stairs = (values: Float64Array, colour: string, dash: number[] | "solid", name: string) => {
      const found = steps(acks.t_ns.values, values, view[0], view[1], Math.max(100, width - 110));
      points += found.length;
      series.push({ type: "line", name, step: "end", showSymbol: false, clip: true, silent: true, z: 3,
        lineStyle: { color: colour, width: 1.2, type: dash }, itemStyle: { color: colour }, data: found.map(([at, value]) => [at / NS, value]) });
    };
    stairs(acks.ack.values, scene.theme.text, "solid", "DATA_ACK");
    stairs(acks.edge.values, scene.theme.dim, [5, 3], "edge");
    flow.of.subflows.forEach((each, at) => {
      if (this.isHidden(scene, run, each.name)) return;
      const colour = pathColour(this.subflows.indexOf(each.name), scene.theme);
      KINDS.forEach((name, number) => {
        const found = bars(t, lows, highs, (row) => subflows[row] === at && kinds[row] === number, view, columns, gap);
        if (found.t.length === 0) return;
        points += found.t.length;
        const isNew = number === 0;
        const marked = !isNew && found.t.length <= MOST_MARKS;
        const stroke = name === "retransmitted" ? scene.theme.warn : name === "reinjected" ? scene.theme.note : colour;
        series.push(segments(found, isNew ? colour : stroke, isNew ? (dense ? SLOT : 2) : dense && !marked ? 1 : 2.5, marked ? name : "", isNew ? 4 : 5,
          dense && isNew ? { from: view[0], width: (view[1] - view[0]) / columns, at: (at + 0.5) / slots } : null));
      });
    });
    const margin = (top - bottom) * 0.04 || 1;
    shade(series, [run.of], to, scene);
    const option = {
      ...base(scene.theme),
      grid: { left: 84, right: 24, top: 12, bottom: 48 },
      tooltip: { ...base(scene.theme).tooltip, trigger: "axis", axisPointer: { type: "line", snap: false, lineStyle: { color: scene.theme.dim } },
        formatter: (found: Any) => this.sequenceTip(run, flow, Number(found[0]?.axisValue)) },
      xAxis: xAxis(scene.theme, "time since the start of the run", [from, to], seconds, { axisLabel: { showMinLabel: false, showMaxLabel: false } }),
      yAxis: yAxis(scene.theme, "", bytes, { min: Math.max(0, bottom - margin), max: top + margin, axisLabel: { showMinLabel: bottom <= margin, showMaxLabel: false } }),
      series,
    };
    return { option, points };
  }

  private sequenceTip(run: Run, flow: Flow, time: number): HTMLElement {
    const ns = time * NS;
    const { t_ns, from, to, subflow, kind } = flow.sent;
    const lines: [string, string][] = [];
    const ack = lastAtMost(flow.acks.t_ns.values, ns);
    if (ack >= 0) lines.push(["DATA_ACK", `${count(flow.acks.ack.values[ack] as number)} B`]);
    const last = lastAtMost(t_ns.values, ns);
    const seen = new Set<number>();
    for (let row = last; row >= 0 && row > last - 2000 && seen.size < flow.of.subflows.length; row -= 1) {
      const of = subflow.values[row] as number;
      if (seen.has(of)) continue;
      seen.add(of);
      lines.push([`${flow.of.subflows[of]?.name ?? of}, ${KINDS[kind.values[row] as number]} at ${exactly((t_ns.values[row] as number) / NS)}`,
        `${count(from.values[row] as number)} to ${count(to.values[row] as number)} B`]);
    }
    return tip(`${run.of.scheduler} at ${exactly(time)}`, lines);
  }

  private sequenceTable() {
    const rows: Cell[][] = [];
    for (const run of this.runs) {
      const flow = run.streams.find((stream) => stream.of.flow === this.chosen);
      if (!flow) continue;
      const { t_ns, from, to, subflow, kind } = flow.sent;
      for (let row = 0; row < t_ns.values.length; row += 1) {
        rows.push([run.of.condition, run.of.scheduler, t_ns.values[row] as number, flow.of.subflows[subflow.values[row] as number]?.name ?? "",
          KINDS[kind.values[row] as number] ?? "", from.values[row] as number, to.values[row] as number]);
      }
    }
    return { columns: ["condition", "contender", "t ns", "subflow", "event", "from byte", "to byte"], rows };
  }

  /** A figure with a line for each subflow of the chosen flow. */
  private lines(id: string, title: string, note: string, keys: [string, boolean][], scale: number, write: (value: number) => string,
    more: (scene: Scene) => HTMLElement[]): Figure | null {
    const known = this.runs.some((run) => run.streams.some((flow) => flow.subflows.some((subflow) =>
      (subflow.get(keys[0]?.[0] ?? "") as Column).values.some((value) => value >= 0))));
    if (!known) return null;
    return {
      id: `${this.prefix}-${id}`,
      title,
      note: note,
      controls: (redraw) => this.flowChoice(redraw),
      panels: () => this.each((run, flow) => {
        const panel: Panel = {
          title: this.title(run.of) + this.ofFlow().replace(/\.$/, "").replace(/^ Flow/, ", flow"),
          label: `${title} of ${run.of.scheduler} ${run.of.condition}`,
          height: () => 260,
          draw: (scene, width, zoom) => {
            const shown = flow.of.subflows.flatMap((subflow, at) => keys.map(([key, thin]) => ({
              name: subflow.name, thin, hidden: this.isHidden(scene, run, subflow.name), place: this.subflows.indexOf(subflow.name),
              t: flow.subflows[at]?.get("t_ns") as Column, values: flow.subflows[at]?.get(key) as Column })));
            const { option, points } = timeChart(shown.filter((each) => !each.hidden), run, this.end(run), scale, write, scene, width, zoom);
            panel.points = points;
            return option;
          },
        };
        return panel;
      }),
      key: (scene) => this.key(scene, more(scene)),
      table: () => ({
        columns: ["condition", "contender", "subflow", "t ns", "cwnd B", "ssthresh B", "in flight B", "srtt \u00b5s"],
        rows: this.runs.flatMap((run) => run.streams.filter((stream) => stream.of.flow === this.chosen).flatMap((flow) =>
          flow.of.subflows.flatMap((subflow, at) => {
            const get = (key: string) => (flow.subflows[at]?.get(key) as Column).values;
            const or = (value: number | undefined): Cell => (value === undefined || value < 0 ? null : value);
            return Array.from(get("t_ns"), (t, row): Cell[] => [run.of.condition, run.of.scheduler, subflow.name, t, or(get("cwnd_bytes")[row]),
              or(get("ssthresh_bytes")[row]), or(get("inflight_bytes")[row]), or(get("srtt_us")[row])]);
          }))),
      }),
    };
  }

  private windows(): Figure | null {
    return this.lines("cwnd", "Congestion window", "The congestion window of each subflow at the sender; thin lines are the bytes in flight.",
      [["cwnd_bytes", false], ["inflight_bytes", true]], 1, bytes, () => []);
  }

  private roundTrips(): Figure | null {
    return this.lines("rtt", "Round-trip time", "The smoothed round-trip time of each subflow at the sender.",
      [["srtt_us", false]], 1e-6, seconds, () => []);
  }

  private queues(): Figure | null {
    if (!this.runs.some((run) => run.queues.length)) return null;
    const links = [...new Set(this.runs.flatMap((run) => run.queues.map((queue) => queue.link)))];
    const all = Math.max(...this.runs.map((run) => run.of.links));
    return {
      id: `${this.prefix}-queues`,
      title: "Queues",
      note: "The bytes in the queue of each link, the packet in transmission included. " +
        (links.length < all ? `Of ${all} links, those with the largest queues.` : ""),
      panels: () => this.runs.filter((run) => run.queues.length).map((run) => {
        const panel: Panel = {
          title: this.title(run.of),
          label: `Queues of ${run.of.scheduler} ${run.of.condition}`,
          height: () => 260,
          draw: (scene, width, zoom) => {
            const shown = scene.hidden.has(run.of.scheduler) ? [] : run.queues.map((queue) =>
              ({ name: queue.link, thin: false, place: links.indexOf(queue.link), t: queue.t_ns, values: queue.bytes }));
            const { option, points } = timeChart(shown, run, this.end(run), 1, bytes, scene, width, zoom);
            panel.points = points;
            return option;
          },
        };
        return panel;
      }),
      key: (scene) => el("div", { class: "key" }, ...links.map((link, at) =>
        el("span", {}, line(pathColour(at, scene.theme), subflowDash(at)), el("bdi", {}, link)))),
      table: () => ({
        columns: ["condition", "contender", "link", "t ns", "queue B", "packets dropped"],
        rows: this.runs.flatMap((run) => run.queues.flatMap((queue) => Array.from(queue.t_ns.values, (t, row): Cell[] =>
          [run.of.condition, run.of.scheduler, queue.link, t, queue.bytes.values[row] ?? null, queue.dropped.values[row] ?? null]))),
      }),
    };
  }

  /** A panel for each condition, with a curve for each contender. */
  private curves(label: string, height: number, draw: (runs: Run[], scene: Scene, width: number, zoom: Range | null) => Any): Panel[] {
    return this.conditions.map((condition) => ({
      title: this.conditions.length > 1 ? condition : "",
      label: `${label} ${condition}`,
      height: () => height,
      draw: (scene, width, zoom) =>
        draw(this.runs.filter((run) => run.of.condition === condition && !scene.hidden.has(run.of.scheduler)), scene, width, zoom),
    }));
  }

  private reordering(): Figure | null {
    if (!this.runs.some((run) => run.of.reordering.segments)) return null;
    // A curve holds its last value, which without any reordering is its only one.
    const end = (runs: Run[]) => Math.max(1e6, ...runs.map((run) => run.of.reordering.steps.at(-1)?.[0] ?? 0));
    const held = (steps: [number, number][], until: number): [number, number][] => {
      const last = steps.at(-1);
      return last && last[0] < until ? [...steps, [until, last[1]]] : steps;
    };
    return {
      id: `${this.prefix}-reordering`,
      title: "Out-of-order delay",
      note: "The share of segments that waited at most this time at the receiver for earlier data, over all flows of the contender. A segment in " +
        "order waits 0. A curve that starts higher has less reordering.",
      two: true,
      panels: () => this.curves("Distribution of the out-of-order delay", 320, (runs, scene, _, zoom) => ({
        ...base(scene.theme),
        grid: { left: 56, right: 20, top: 16, bottom: 48 },
        tooltip: { ...base(scene.theme).tooltip, trigger: "axis", axisPointer: { type: "line", snap: false, lineStyle: { color: scene.theme.dim } },
          formatter: (found: Any) => {
            const value = Number(found[0]?.axisValue);
            return tip(`within ${exactly(value)}`, runs.map((run) => [run.of.scheduler, percent(100 * shareWithin(run.of, value * NS))]));
          } },
        xAxis: xAxis(scene.theme, "wait for earlier data", zoom, seconds),
        yAxis: yAxis(scene.theme, "", (value) => `${value} %`, { max: 100, scale: true }),
        series: runs.map((run) => ({
          type: "line", step: "end", showSymbol: false, clip: true,
          lineStyle: lineStyle(scene, run.of.scheduler, 2),
          itemStyle: { color: scene.colour(run.of.scheduler) },
          data: held(run.of.reordering.steps, end(runs)).map(([delay, share]) => [delay / NS, 100 * share]),
        })),
      })),
      key: (scene) => this.contenderKey(scene),
      table: () => ({
        columns: ["condition", "contender", "wait ns", "share %"],
        rows: this.recording.runs.flatMap((run) => run.reordering.steps.map(([delay, share]): Cell[] =>
          [run.condition, run.scheduler, delay, +(100 * share).toFixed(4)])),
      }),
    };
  }

  private contenderKey(scene: Scene): HTMLElement {
    return el("div", { class: "key" }, ...this.contenders.filter((name) => !scene.hidden.has(name)).map((name) =>
      el("span", {}, line(scene.colour(name), scene.styles.get(name)?.dash ?? []), el("bdi", {}, name))));
  }

  private goodput(): Figure | null {
    if (!this.runs.some((run) => run.of.goodput.bytes.some((value) => value > 0))) return null;
    const bin = this.runs[0]?.of.goodput.bin_ns ?? 0;
    const rates = (run: RecordedRun) => run.goodput.bytes.map((value, at): [number, number] => {
      const begin = at * run.goodput.bin_ns;
      const span = Math.max(1, Math.min(run.goodput.bin_ns, run.end_ns - begin));
      return [begin / NS, (8 * NS * value) / span];
    });
    return {
      id: `${this.prefix}-goodput`,
      title: "Goodput over time",
      note: `The rate of the bytes delivered in order in intervals of ${seconds(bin / NS)}, over all flows of the contender.`,
      two: true,
      panels: () => this.curves("Goodput over time", 320, (runs, scene, _, zoom) => ({
        ...base(scene.theme),
        grid: { left: 84, right: 24, top: 16, bottom: 48 },
        tooltip: { ...base(scene.theme).tooltip, trigger: "axis", axisPointer: { type: "line", snap: false, lineStyle: { color: scene.theme.dim } },
          formatter: (found: Any) => {
            const time = Number(found[0]?.axisValue);
            return tip(`at ${exactly(time)}`, runs.map((run) => [run.of.scheduler, rate(rates(run.of)[Math.floor((time * NS) / run.of.goodput.bin_ns)]?.[1])]));
          } },
        xAxis: xAxis(scene.theme, "time since the start of the run", zoom ?? [0, Math.max(...runs.map((run) => run.of.end_ns), 1) / NS], seconds),
        yAxis: yAxis(scene.theme, "", rate, { min: 0 }),
        series: shade(runs.map((run): Any => ({
          type: "line", step: "end", showSymbol: false, clip: true,
          lineStyle: lineStyle(scene, run.of.scheduler, 2),
          itemStyle: { color: scene.colour(run.of.scheduler) },
          data: held(rates(run.of), run.of),
        })), runs.map((run) => run.of), Math.max(...runs.map((run) => run.of.end_ns), 1) / NS, scene),
      })),
      key: (scene) => this.contenderKey(scene),
      table: () => ({
        columns: ["condition", "contender", "from s", "goodput bit/s"],
        rows: this.recording.runs.flatMap((run) => rates(run).map(([at, value]): Cell[] => [run.condition, run.scheduler, at, value])),
      }),
    };
  }

  private paths(): Figure | null {
    const names = [...new Set(this.recording.runs.flatMap((run) => run.paths))];
    if (names.length < 2 || !this.recording.runs.some((run) => run.bytes_by_path.some((value) => value > 0))) return null;
    return stackedBars({
      id: `${this.prefix}-paths`,
      title: "Bytes per path",
      note: "The share of each path in the bytes that were delivered, each counted once, on the path by which it arrived first.",
      axis: "share of the bytes, %",
      conditions: this.conditions,
      parts: names.map(pathName),
      colour: pathColour,
      rows: this.recording.runs.map((run) => {
        const all = run.bytes_by_path.reduce((sum, value) => sum + value, 0) || 1;
        const of = (name: string) => run.bytes_by_path[run.paths.indexOf(name)] ?? 0;
        return { condition: run.condition, contender: run.scheduler, label: run.scheduler,
          values: names.map((name) => (100 * of(name)) / all), tips: names.map((name) => bytes(of(name))) };
      }),
      write: (value) => percent(value),
    });
  }

  /** The contender's flows of a class that have completion times: transfers. */
  private timed(run: RecordedRun, traffic: string | null): RecordedFlow[] {
    return run.flows.filter((flow) => flow.own && hasGoodput(flow.traffic ?? null, flow.kind) && (flow.traffic ?? null) === traffic);
  }

  private timedClasses(): (string | null)[] {
    return classes(this.recording.runs.flatMap((run) => run.flows)).filter((traffic) =>
      this.recording.runs.some((run) => this.timed(run, traffic).length > 0));
  }

  private completion(traffic: string | null, at: number): Figure | null {
    const times = (run: RecordedRun) => this.timed(run, traffic).map((flow) => (flow.fct_ns === null ? null : flow.fct_ns / NS));
    const several = this.recording.runs.some((run) => times(run).filter((value) => value !== null).length > 1);
    if (!this.recording.runs.some((run) => times(run).some((value) => value !== null))) return null;
    return {
      id: `${this.prefix}-completion${traffic === null ? "" : `-${at + 1}`}`,
      title: titled(traffic, "Completion times"),
      note: several ? "The share of all flows of this run that took at most this time. These are single runs; a comparison has intervals."
        : "The time of the flow in this run. These are single runs; a comparison has intervals.",
      two: several,
      panels: () => (several
        ? this.curves("Completion times", 320, (runs, scene, _, zoom) => ({
          ...base(scene.theme),
          grid: { left: 56, right: 20, top: 16, bottom: 48 },
          tooltip: { ...base(scene.theme).tooltip, trigger: "axis", axisPointer: { type: "line", snap: false, lineStyle: { color: scene.theme.dim } },
            formatter: (found: Any) => {
              const value = Number(found[0]?.axisValue);
              return tip(`within ${exactly(value)}`, runs.map((run) => {
                const all = times(run.of);
                return [run.of.scheduler, percent((100 * firstAbove(sorted(all), value)) / all.length)];
              }));
            } },
          xAxis: xAxis(scene.theme, "completion time", zoom, seconds),
          yAxis: yAxis(scene.theme, "", (value) => `${value} %`, { min: 0, max: 100 }),
          series: runs.map((run) => {
            const all = times(run.of);
            const ordered = sorted(all);
            return { type: "line", step: "end", showSymbol: false, clip: true, lineStyle: lineStyle(scene, run.of.scheduler, 2),
              itemStyle: { color: scene.colour(run.of.scheduler) },
              data: distribution(ordered, 2000).map(([value, share]) => [value, (100 * share * ordered.length) / all.length]) };
          }),
        }))
        : this.conditions.map((condition) => this.single(condition, traffic))),
      ...(several ? { key: (scene: Scene) => this.contenderKey(scene) } : {}),
      table: () => ({
        columns: ["condition", "contender", "flow", "outcome", "start s", "size B", "completion time s", "goodput bit/s"],
        rows: this.recording.runs.flatMap((run) => (traffic === null ? run.flows : this.timed(run, traffic)).map((flow): Cell[] => [run.condition, run.scheduler, flow.name, flow.outcome,
          flow.start_ns / NS, flow.size_bytes, flow.fct_ns === null ? null : flow.fct_ns / NS, flow.goodput_bps])),
      }),
    };
  }

  /** The time of the one flow of each run, as bars that begin at zero. */
  private single(condition: string, traffic: string | null): Panel {
    const all = this.recording.runs.filter((run) => run.condition === condition);
    const time = (run: RecordedRun) => this.timed(run, traffic)[0]?.fct_ns ?? null;
    return {
      title: this.conditions.length > 1 ? condition : "",
      label: `Completion times ${condition}: ` + all.map((run) => `${run.scheduler} ${seconds((time(run) ?? NaN) / NS)}`).join(", "),
      height: (scene) => 70 + 36 * Math.max(1, all.filter((run) => !scene.hidden.has(run.scheduler)).length),
      draw: (scene, width, zoom) => {
        const shown = all.filter((run) => !scene.hidden.has(run.scheduler));
        const names = shown.map((run) => run.scheduler);
        const labels = nameWidth(names, width);
        return {
          ...base(scene.theme),
          grid: rowGrid(labels),
          xAxis: xAxis(scene.theme, "completion time", zoom, seconds, zoom ? {} : { min: 0 }),
          yAxis: [rowAxes(scene.theme, names, labels)[0]],
          series: [{
            type: "bar", clip: true, barWidth: 16,
            data: shown.map((run) => ({ value: (time(run) ?? NaN) / NS, itemStyle: { color: scene.colour(run.scheduler) } })),
            label: { show: true, position: "insideRight", color: scene.theme.page, formatter: (found: Any) => seconds(found.value) },
            tooltip: { formatter: (found: Any) => tip(names[found.dataIndex] ?? "", [["completion time", exactly(found.value)]]) },
          }],
        };
      },
    };
  }

  private jain(): Figure | null {
    const known = this.recording.runs.filter((run) => run.jain !== null);
    if (!known.length) return null;
    return {
      id: `${this.prefix}-jain`,
      title: "Jain's fairness index",
      note: "Of the goodput of all flows of the run, competing ones included: 1 if all have the same, 1/n if one of n has everything.",
      panels: () => this.conditions.map((condition) => forest({
        title: this.conditions.length > 1 ? condition : "",
        axis: "Jain's index",
        estimates: known.filter((run) => run.condition === condition).map((run) => ({ contender: run.scheduler, label: run.scheduler,
          value: run.jain ?? 0, interval: null, certain: true, lines: [["Jain's index", digits(run.jain ?? 0)]] as [string, string][] })),
        write: plain,
        line: null,
        band: 0,
      })),
      table: () => ({ columns: ["condition", "contender", "Jain's index", "flows"],
        rows: known.map((run): Cell[] => [run.condition, run.scheduler, run.jain, run.flows.length]) }),
    };
  }
}

/** Shades the times in which a path of these runs is down, behind the first of `series`. */
function shade(series: Any[], runs: RecordedRun[], end: number, scene: Scene): Any[] {
  const found = new Map<string, Any>();
  for (const run of runs) {
    for (const { path, from_ns, until_ns } of run.outages) {
      found.set(`${path}\n${from_ns}`, [{ name: `${pathName(path)} down`, xAxis: from_ns / NS }, { xAxis: until_ns === null ? end : until_ns / NS }]);
    }
  }
  if (series[0] && found.size) {
    series[0].markArea = { silent: true, itemStyle: { color: scene.theme.dim, opacity: 0.16 },
      label: { show: true, position: "insideTop", color: scene.theme.dim, fontSize: 11 }, data: [...found.values()] };
  }
  return series;
}

/** The steps of a rate until the end of the run. A last interval that is cut to less than a tenth of the others says nothing of the
 * rate, and is left out. */
function held(steps: [number, number][], run: RecordedRun): [number, number][] {
  const [end, width] = [run.end_ns / NS, run.goodput.bin_ns / NS];
  const shown = steps.filter(([from], at) => at === 0 || end - from >= width / 10);
  const last = shown[shown.length - 1];
  return last ? [...shown, [end, last[1]]] : [];
}

/** The name by which a subflow is in the set of the hidden. */
export const hiddenSubflow = (name: string): string => `subflow\n${name}`;

function columns<K extends string>(of: Record<K, string>): Record<K, Column> {
  const found = {} as Record<K, Column>;
  for (const key of Object.keys(of) as K[]) found[key] = new Column(of[key]);
  return found;
}

function shareWithin(run: RecordedRun, delay: number): number {
  let share = 0;
  for (const [at, up] of run.reordering.steps) {
    if (at > delay) break;
    share = up;
  }
  return share;
}

/** A line in a key. */
function line(colour: string, dash: number[]): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of [["width", "44"], ["height", "10"], ["aria-hidden", "true"]]) svg.setAttribute(key as string, value as string);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const all = { x1: "0", y1: "5", x2: "44", y2: "5", stroke: colour, "stroke-width": "2", "stroke-dasharray": dash.join(" ") };
  for (const [key, value] of Object.entries(all)) path.setAttribute(key, value);
  svg.append(path);
  return svg;
}

function symbol(text: string, colour: string): HTMLElement {
  const element = el("b", {}, `${text} `);
  element.style.color = colour;
  return element;
}

/** Vertical lines as one path, with a mark at the top of each if `name` is a kind that has one. */
function segments(found: { t: number[]; low: number[]; high: number[] }, colour: string, width: number, name: string, z: number,
  slot: { from: number; width: number; at: number } | null): Any {
  return {
    type: "custom",
    clip: true,
    silent: true,
    z,
    data: [[(found.t[0] as number) / NS, found.low[0]]],
    encode: { x: 0, y: 1 },
    renderItem: (_: Any, api: Any): Any => {
      const [x0, y0] = api.coord([0, 0]) as [number, number];
      const [x1, y1] = api.coord([1, 1e6]) as [number, number];
      const x = (t: number) => x0 + ((x1 - x0) * t) / NS;
      const y = (offset: number) => y0 + ((y1 - y0) * offset) / 1e6;
      const parts: string[] = [];
      const marks: string[] = [];
      for (let at = 0; at < found.t.length; at += 1) {
        const time = found.t[at] as number;
        const px = x(slot ? slot.from + (Math.floor((time - slot.from) / slot.width) + slot.at) * slot.width : time);
        let [from, to] = [y(found.low[at] as number), y(found.high[at] as number)];
        // A segment is visible, however long the view is.
        if (from - to < 2.4) [from, to] = [(from + to) / 2 + 1.2, (from + to) / 2 - 1.2];
        parts.push(`M${px.toFixed(1)} ${from.toFixed(1)}L${px.toFixed(1)} ${to.toFixed(1)}`);
        const my = (from + to) / 2;
        if (name === "retransmitted") marks.push(`M${px - 4} ${my - 4}L${px + 4} ${my + 4}M${px - 4} ${my + 4}L${px + 4} ${my - 4}`);
        if (name === "reinjected") marks.push(`M${px} ${my - 5}L${px + 5} ${my}L${px} ${my + 5}L${px - 5} ${my}Z`);
      }
      const path = (data: string[], lineWidth: number) =>
        ({ type: "path", shape: { pathData: data.join("") }, style: { stroke: colour, fill: "none", lineWidth } });
      return { type: "group", children: marks.length ? [path(parts, width), path(marks, 1.5)] : [path(parts, width)] };
    },
  };
}

interface Line { name: string; thin: boolean; place: number; t: Column; values: Column }

/** Lines over the time of a run; `scale` turns values into those of the axis. */
function timeChart(lines: Line[], run: Run, end: number, scale: number, write: (value: number) => string, scene: Scene, width: number, zoom: Range | null):
{ option: Any; points: number } {
  const [from, to] = zoom ?? [0, end];
  let points = 0;
  const series: Any[] = lines.map((each) => {
    const found = steps(each.t.values, each.values.values, from * NS, to * NS, Math.max(100, width - 110));
    points += found.length;
    const colour = pathColour(each.place, scene.theme);
    const dash = subflowDash(each.place);
    return {
      type: "line", step: "end", showSymbol: false, clip: true, silent: true, connectNulls: false,
      lineStyle: { color: colour, width: each.thin ? 0.8 : 2, opacity: each.thin ? 0.6 : 1, type: dash.length && !each.thin ? dash : "solid" },
      itemStyle: { color: colour },
      data: found.map(([at, value]) => [at / NS, value === null ? null : value * scale]),
    };
  });
  shade(series, [run.of], to, scene);
  const option = {
    ...base(scene.theme),
    grid: { left: 84, right: 24, top: 16, bottom: 48 },
    tooltip: { ...base(scene.theme).tooltip, trigger: "axis", axisPointer: { type: "line", snap: false, lineStyle: { color: scene.theme.dim } },
      formatter: (found: Any) => {
        const time = Number(found[0]?.axisValue);
        return tip(`${run.of.scheduler} at ${exactly(time)}`, lines.map((each): [string, string] => {
          const row = lastAtMost(each.t.values, time * NS);
          const value = each.values.values[row];
          return [each.thin ? `${each.name}, in flight` : each.name, row < 0 || value === undefined || value < 0 ? write(NaN) : write(value * scale)];
        }));
      } },
    xAxis: xAxis(scene.theme, "time since the start of the run", [from, to], seconds, { axisLabel: { showMinLabel: false, showMaxLabel: false } }),
    yAxis: yAxis(scene.theme, "", write, { min: 0 }),
    series,
  };
  return { option, points };
}
