// The figures of a comparison.

import { type Any, base, mark, nameWidth, rowAxes, rowGrid, whisker, xAxis, yAxis } from "./chart";
import type { Comparison, Row, Samples } from "./results";
import { type Cell, choice, el, type Table, tip } from "./dom";
import { type Figure, lineStyle, type Panel, type Scene } from "./figure";
import { forest } from "./forest";
import { bytes, count, digits, exactly, interval, number, pathName, percent, percentTick, plain, rate, seconds, signed } from "./format";
import { ends, estimate, label, usesContender } from "./rows";
import { type Bin, bins, box, distribution, firstAbove, jitter, sorted } from "./stats";
import { pathColour } from "./theme";
import { trade } from "./trade";
import { capital, classes, hasGoodput, titled, type Words, words } from "./traffic";

/** Beyond this many points of a contender, bins are drawn. */
const MOST_POINTS = 4000;
const BINS = 160;

/** The same, with the flows that were delivered if some were not. */
const delivered = (row: Row): string =>
  row.completed < row.n ? `${label(row)}, ${count(row.completed)} of ${count(row.n)}` : label(row);

interface Times {
  row: Row;
  values: ArrayLike<number | null>;
  ordered: Float64Array;
  /** What the point at a place is. */
  about(at: number): string;
}

/** The figures of a comparison: those of each class of traffic, then those of all traffic together. */
export function comparisonFigures(result: Comparison, samples: Samples | null, prefix: string): Figure[] {
  const flows = samples ? groups(samples) : null;
  const all = classes(result.rows).map((traffic, at) => {
    const rows = result.rows.filter((row) => (row.traffic ?? null) === traffic);
    const own = traffic === null ? prefix : `${prefix}-${at + 1}`;
    return new ComparisonFigures({ ...result, rows }, samples, flows, own, traffic);
  });
  const together = all[0] ?? new ComparisonFigures(result, samples, flows, prefix, null);
  const trades = all.length > 1 ? trade(result, prefix) : null;
  return [...(trades ? [trades] : []), ...all.flatMap((each) => each.figures()), ...together.common(prefix)];
}

/** The figures of one class of traffic, or of a scenario without classes. */
class ComparisonFigures {
  private readonly times: Map<string, Times[]> = new Map();
  private readonly isBulk: boolean;
  private readonly words: Words;
  private readonly kind: string | undefined;

  constructor(
    /** The result, with the rows of this class alone. */
    private readonly result: Comparison,
    private readonly samples: Samples | null,
    flows: Map<string, number[]> | null,
    private readonly prefix: string,
    private readonly traffic: string | null,
  ) {
    this.kind = result.rows[0]?.kind;
    this.words = words(traffic, this.kind);
    const judged = result.verdicts.some((verdict) => traffic !== null && verdict.traffic === traffic && verdict.measure === "goodput");
    this.isBulk = judged || (hasGoodput(traffic, this.kind) && result.rows.every((row) => row.fct_s.mean === null && row.n === row.completed));
    for (const condition of result.conditions) {
      this.times.set(condition.name, this.rows(condition.name).map((row) => {
        const places = flows?.get(`${row.condition}\n${row.scheduler}\n${row.traffic ?? ""}`);
        if (places && samples) {
          const values = places.map((place) => samples.fct_s[place] ?? null);
          const about = (at: number) => {
            const place = places[at] as number;
            const part = samples.part?.[place];
            return `run ${samples.run[place]}, flow ${samples.flow[place]}${part == null ? "" : `, ${this.words.one} ${part}`}`;
          };
          return { row, values, ordered: sorted(values), about };
        }
        const values = row.by_run?.fct_s ?? [];
        return { row, values, ordered: sorted(values), about: (at: number) => `run ${at}, mean of its ${this.words.many}` };
      }));
    }
  }

  private rows(condition: string): Row[] {
    return this.result.rows.filter((row) => row.condition === condition);
  }

  private title(condition: string): string {
    return this.result.conditions.length > 1 ? condition : "";
  }

  /** A panel for each condition. */
  private each(panel: (condition: string) => Panel | null): Panel[] {
    return this.result.conditions.filter((condition) => this.rows(condition.name).length > 0)
      .map((condition) => panel(condition.name)).filter((panel) => panel !== null);
  }

  figures(): Figure[] {
    const found: (Figure | null)[] = [
      this.difference(),
      this.completion(),
      this.distribution(),
      this.bitrate(),
      this.paths(),
      this.goodput(),
    ];
    const traffic = this.traffic;
    const shown = found.filter((figure) => figure !== null);
    return traffic === null ? shown : shown.map((figure) => ({ ...figure, table: () => inClass(traffic, figure.table()) }));
  }

  /** The figures of all traffic together. */
  common(prefix: string): Figure[] {
    return [this.starts(prefix), this.shares(prefix), this.jain(prefix)].filter((figure) => figure !== null);
  }

  private difference(): Figure | null {
    const { reference, min_effect_pct: band } = this.result;
    const compared = this.result.rows.filter((row) => row.scheduler !== reference && row.vs_reference_pct?.mean != null);
    if (reference === null || !compared.length) return null;
    const what = this.isBulk ? "goodput" : `mean ${this.words.time}`;
    const { less } = this.words;
    const better = this.isBulk ? "Right of the line is more goodput than" : `Left of the line is ${less} than${less === "faster" ? "" : " with"}`;
    return {
      id: `${this.prefix}-difference`,
      title: titled(this.traffic, `${this.traffic === null ? "Difference" : `${capital(what)}, difference`} from ${reference}`),
      note: `${better} ${reference}. Bars are intervals that hold for all contenders together with 95 %. A hollow mark: with ` +
        `this number of runs, the contender and ${reference} cannot be told apart. The band: differences below ${band} %, which count as equal.`,
      panels: () => this.each((condition) => {
        const rows = compared.filter((row) => row.condition === condition);
        return rows.length === 0 ? null : forest({
          title: this.title(condition),
          axis: `${what} against ${reference}, %`,
          estimates: rows.map((row) => estimate(row.scheduler, label(row), row.vs_reference_pct, band)),
          write: percentTick,
          line: 0,
          band,
        });
      }),
      table: () => ({
        columns: ["condition", "contender", "difference %", "low %", "high %"],
        rows: this.result.rows.map((row) => [row.condition, label(row), ...ends(row.vs_reference_pct)]),
      }),
    };
  }

  private completion(): Figure | null {
    if (![...this.times.values()].flat().some((times) => times.ordered.length)) return null;
    const { many, note } = this.words;
    const points = this.samples ? many : `runs (the mean of each run's ${many})`;
    return {
      id: `${this.prefix}-completion`,
      title: titled(this.traffic, capital(this.words.times)),
      note: `${note ? `${note} ` : ""}${this.beside()}Points are ${points}; beyond ${count(MOST_POINTS)} of them, darker places have more. The box has the middle half with the ` +
        `median, its whiskers reach up to 1.5 boxes further. The mark above it is the mean with its 95 % interval.` +
        (this.result.rows.some((row) => row.completed < row.n) ? ` Beside a name: how many of its ${many} were ${this.words.done}.` : ""),
      panels: () => this.each((condition) => this.strip(condition)),
      table: () => ({
        columns: ["condition", "contender", many, this.words.done, "mean s", "mean low s", "mean high s", "median s", "p95 s", "p99 s",
          "mean / lower bound", "retransmitted", "reinjected", "RTOs per flow", "longest gap s", "subflows used", ...this.more().map(([name]) => name)],
        rows: this.result.rows.map((row): Cell[] => [row.condition, label(row), row.n, row.completed, row.fct_s.mean,
          ...(row.fct_s.ci95 ?? [null, null]), row.fct_s.p50, row.fct_s.p95, row.fct_s.p99, row.vs_lower_bound,
          row.retransmitted_ratio, row.reinjected_ratio, row.rto_count, row.longest_gap_s?.mean ?? null, row.subflows_used, ...this.more().map(([, of]) => of(row))]),
      }),
    };
  }

  /** The sentence about traffic that does not use the contender. */
  private beside(): string {
    const other = this.result.rows.find((row) => !usesContender(row));
    if (!other) return "";
    const path = other.path === null ? "" : ` on ${pathName(other.path)}`;
    const how = other.transport === "udp" ? "datagrams" : "a plain TCP";
    return `This traffic is ${how}${path} beside each contender, whose other traffic shares its queues. `;
  }

  /** The further columns of a kind of traffic. */
  private more(): [string, (row: Row) => Cell][] {
    if (this.kind === "video") {
      return [["startup s", (row) => row.video?.startup_s.mean ?? null], ["stalls", (row) => row.video?.stalls ?? null],
        ["stalled s", (row) => row.video?.stalled_s ?? null], ["bitrate bit/s", (row) => row.video?.bitrate_bps ?? null],
        ["changes of the bitrate", (row) => row.video?.switches ?? null]];
    }
    if (this.kind !== "udp") return [];
    return [["datagrams sent", (row) => row.datagrams?.sent ?? null], ["received", (row) => row.datagrams?.received ?? null],
      ["lost, of those sent", (row) => row.datagrams?.lost_ratio ?? null], ["delay p50 s", (row) => row.datagrams?.delay_p50_s ?? null],
      ["delay p95 s", (row) => row.datagrams?.delay_p95_s ?? null], ["delay p99 s", (row) => row.datagrams?.delay_p99_s ?? null],
      ["delay max s", (row) => row.datagrams?.delay_max_s ?? null], ["jitter s", (row) => row.datagrams?.jitter_s ?? null]];
  }

  private shown(condition: string, scene: Scene): Times[] {
    return (this.times.get(condition) ?? []).filter((times) => !scene.hidden.has(times.row.scheduler));
  }

  private strip(condition: string): Panel | null {
    if (!this.times.get(condition)?.some((times) => times.ordered.length)) return null;
    return {
      title: this.title(condition),
      label: `${capital(this.words.times)} ${this.traffic ?? ""}${this.traffic === null ? "" : " "}${condition}: ` +
        this.rows(condition).map((row) => `${label(row)} mean ${seconds(row.fct_s.mean)}`).join(", "),
      height: (scene) => 70 + 64 * Math.max(1, this.shown(condition, scene).length),
      draw: (scene, width, zoom) => {
        const all = this.shown(condition, scene);
        const names = all.map((times) => delivered(times.row));
        const labels = nameWidth(names, width);
        const series = all.flatMap((times, at) => [this.cloud(times, at, scene, zoom), boxSeries(times, at, scene, this.words)]);
        return {
          ...base(scene.theme),
          grid: rowGrid(labels),
          xAxis: xAxis(scene.theme, this.samples ? `${this.words.time} of a ${this.words.one}` : `${this.words.time}, mean of a run`, zoom, seconds),
          yAxis: rowAxes(scene.theme, names, labels),
          series,
        };
      },
    };
  }

  /** The points of a contender, or how many there are in each of many bins. */
  private cloud(times: Times, at: number, scene: Scene, zoom: [number, number] | null): Any {
    const colour = scene.colour(times.row.scheduler);
    const common = { yAxisIndex: 1, clip: true, z: 2 };
    const low = zoom ? zoom[0] : -Infinity;
    const high = zoom ? zoom[1] : Infinity;
    const visible = times.ordered.filter((value) => value >= low && value <= high);
    if (visible.length > MOST_POINTS) {
      const counts = bins(visible, BINS);
      const most = Math.max(...counts.map((bin) => bin.count));
      return {
        ...common,
        type: "custom",
        data: counts.map((bin) => [bin.from, bin.to, bin.count]),
        encode: { x: [0, 1] },
        renderItem: (_: Any, api: Any): Any => {
          const [x, y] = api.coord([api.value(0), at + 0.16]);
          const [right, bottom] = api.coord([api.value(1), at + 0.44]);
          const shape = { x, y, width: Math.max(1, right - x), height: bottom - y };
          return { type: "rect", shape, style: { fill: colour, opacity: 0.12 + 0.88 * Math.sqrt(api.value(2) / most) } };
        },
        tooltip: { formatter: (found: Any) => {
          const bin = counts[found.dataIndex] as Bin;
          return tip(label(times.row), [["from", exactly(bin.from)], ["to", exactly(bin.to)], [this.words.many, count(bin.count)]]);
        } },
      };
    }
    const data: [number, number, number][] = [];
    for (let place = 0; place < times.values.length; place += 1) {
      const value = times.values[place];
      if (value != null && value >= low && value <= high) data.push([value, at + 0.3 + 0.26 * jitter(place), place]);
    }
    return {
      ...common,
      type: "scatter",
      symbol: scene.styles.get(times.row.scheduler)?.symbol ?? "circle",
      symbolSize: data.length > 500 ? 4 : 6,
      itemStyle: { color: colour, opacity: data.length > 200 ? 0.4 : 0.65 },
      data,
      tooltip: { formatter: (found: Any) =>
        tip(label(times.row), [[times.about(found.value[2]), exactly(found.value[0])]]) },
    };
  }

  private distribution(): Figure | null {
    if (![...this.times.values()].flat().some((times) => times.ordered.length > 1)) return null;
    const { many } = this.words;
    let logarithmic = false;
    return {
      id: `${this.prefix}-cdf`,
      title: titled(this.traffic, `Distribution of ${this.words.times}`),
      note: `The share of all ${this.samples ? many : `runs (means of their ${many})`} ` +
        `${this.words.less === "faster" ? "that took at most this time" : `with at most this ${this.words.time}`}. ` +
        `A curve further left is ${this.words.less}.` +
        (this.kind === "udp" ? "" : ` ${capital(many)} that were not ${this.words.done} keep a curve below 100 %.`) +
        (this.samples ? "" : ` With the file of --samples, the report shows single ${many}.`),
      two: true,
      controls: (redraw) => [choice("Time axis", ["linear", "logarithmic"], 0, (at) => {
        logarithmic = at === 1;
        redraw();
      })],
      panels: () => this.each((condition) => ({
        title: this.title(condition),
        label: `Cumulative distribution of ${this.words.times} ${this.traffic ?? ""}${this.traffic === null ? "" : " "}${condition}`,
        height: () => 340,
        draw: (scene, _, zoom) => this.curves(this.shown(condition, scene), scene, zoom, logarithmic),
      })),
      table: () => ({
        columns: ["condition", "contender", "share %", "time s"],
        rows: [...this.times.entries()].flatMap(([condition, all]) => all.flatMap((times) =>
          distribution(times.ordered, 200).slice(1).map(([value, share]): Cell[] =>
            [condition, label(times.row), +(100 * share).toFixed(3), value]))),
      }),
    };
  }

  private curves(all: Times[], scene: Scene, zoom: [number, number] | null, logarithmic: boolean): Any {
    const shareAt = (times: Times, value: number) => firstAbove(times.ordered, value) / times.values.length;
    return {
      ...base(scene.theme),
      grid: { left: 52, right: 20, top: 16, bottom: 48 },
      tooltip: {
        ...base(scene.theme).tooltip,
        trigger: "axis",
        axisPointer: { type: "line", snap: false, lineStyle: { color: scene.theme.dim } },
        formatter: (found: Any) => {
          const value = Number(found[0]?.axisValue);
          return tip(`within ${exactly(value)}`, all.map((times) => [label(times.row), percent(100 * shareAt(times, value))]));
        },
      },
      xAxis: xAxis(scene.theme, this.words.time, zoom, seconds, logarithmic ? { type: "log" } : {}),
      yAxis: yAxis(scene.theme, "", (value) => `${value} %`, { min: 0, max: 100 }),
      series: all.map((times) => {
        const scale = times.ordered.length / (times.values.length || 1);
        return {
          type: "line",
          step: "end",
          showSymbol: false,
          clip: true,
          lineStyle: lineStyle(scene, times.row.scheduler, 2),
          itemStyle: { color: scene.colour(times.row.scheduler) },
          data: distribution(times.ordered, 2000).map(([value, share]) => [value, 100 * share * scale]),
        };
      }),
    };
  }

  /** The bitrates of videos, where they differ: a picture of less quality waits less. */
  private bitrate(): Figure | null {
    const known = this.result.rows.filter((row) => row.video?.bitrate_bps != null);
    if (new Set(known.map((row) => row.video?.bitrate_bps)).size < 2) return null;
    return {
      id: `${this.prefix}-bitrate`,
      title: titled(this.traffic, "Mean bitrates"),
      note: "The bitrate of the segments that were delivered, the mean over videos. Right is a better picture. The result above says which " +
        "differences are certain.",
      panels: () => this.each((condition) => {
        const here = known.filter((row) => row.condition === condition);
        return here.length === 0 ? null : forest({
          title: this.title(condition),
          axis: "bitrate, mean over videos",
          estimates: here.map((row) => ({ contender: row.scheduler, label: label(row), value: row.video?.bitrate_bps ?? 0, interval: null,
            certain: true, lines: [["bitrate", rate(row.video?.bitrate_bps)], ["changes of the bitrate", number(row.video?.switches)]] })),
          write: rate,
          line: null,
          band: 0,
        });
      }),
      table: () => ({
        columns: ["condition", "contender", "bitrate bit/s", "changes of the bitrate"],
        rows: known.map((row): Cell[] => [row.condition, label(row), row.video?.bitrate_bps ?? null, row.video?.switches ?? null]),
      }),
    };
  }

  private paths(): Figure | null {
    const conditions = new Map(this.result.conditions.map((condition) => [condition.name, condition.paths]));
    const names = [...new Set([...conditions.values()].flat())];
    // Traffic that does not use the contender is on one path.
    if (names.length < 2 || !this.result.rows.every(usesContender)) return null;
    const share = (row: Row, at: number) => (100 * (row.bytes_by_path[at] ?? 0)) / (sum(row.bytes_by_path) || 1);
    return {
      id: `${this.prefix}-paths`,
      title: titled(this.traffic, "Bytes per path"),
      note: "The share of each path in the bytes that were delivered, each counted once, on the path by which it arrived first.",
      two: true,
      panels: () => this.each((condition) => {
        const paths = conditions.get(condition) ?? [];
        const shown = (scene: Scene) => this.rows(condition).filter((row) => !scene.hidden.has(row.scheduler));
        return {
          title: this.title(condition),
          label: `Bytes per path ${condition}: ` + this.rows(condition).map((row) =>
            `${label(row)} ${paths.map((path, at) => `${path} ${percent(share(row, at))}`).join(" ")}`).join("; "),
          height: (scene) => 70 + 32 * Math.max(1, shown(scene).length),
          draw: (scene, width, zoom) => {
            const rows = shown(scene);
            const labels = nameWidth(rows.map(label), width);
            return {
              ...base(scene.theme),
              grid: rowGrid(labels),
              xAxis: xAxis(scene.theme, "share of the bytes, %", zoom, percentTick, zoom ? {} : { min: 0, max: 100 }),
              yAxis: [rowAxes(scene.theme, rows.map(label), labels)[0]],
              series: paths.map((path, at) => ({
                type: "bar",
                stack: "all",
                clip: true,
                barWidth: 18,
                itemStyle: { color: pathColour(names.indexOf(path), scene.theme), borderColor: scene.theme.page, borderWidth: 1 },
                data: rows.map((row) => share(row, at)),
                tooltip: { formatter: (found: Any) => {
                  const row = rows[found.dataIndex] as Row;
                  return tip(label(row), [[path, `${percent(share(row, at))}, ${bytes(row.bytes_by_path[at] ?? 0)}`]]);
                } },
              })),
            };
          },
        };
      }),
      key: (scene) => el("div", { class: "key" }, ...names.map((path, at) => {
        const swatch = el("span", { class: "swatch" });
        swatch.style.background = pathColour(at, scene.theme);
        return el("span", {}, swatch, el("bdi", {}, `path ${path}`));
      })),
      table: () => ({
        columns: ["condition", "contender", "path", "bytes", "share %"],
        rows: this.result.rows.flatMap((row) => (conditions.get(row.condition) ?? []).map((path, at): Cell[] =>
          [row.condition, label(row), path, row.bytes_by_path[at] ?? null, +share(row, at).toFixed(3)])),
      }),
    };
  }

  private goodput(): Figure | null {
    if (!hasGoodput(this.traffic, this.kind)) return null;
    return {
      id: `${this.prefix}-goodput`,
      title: titled(this.traffic, "Goodput in each run"),
      note: "The mean goodput of a run's flows. All contenders meet the same losses and phases in the run of one number, so compare " +
        "them run by run. Beyond 2,000 runs a point is the mean of several runs one after the other.",
      two: true,
      panels: () => this.each((condition) => ({
        title: this.title(condition),
        label: `Goodput by run ${condition}: ` + this.rows(condition).map((row) => `${label(row)} mean ${rate(row.goodput_bps)}`).join(", "),
        height: () => 320,
        draw: (scene, _, zoom) => ({
          ...base(scene.theme),
          grid: { left: 84, right: 20, top: 16, bottom: 48 },
          xAxis: xAxis(scene.theme, "run", zoom, (value) => (Number.isInteger(value) ? String(value) : ""), { minInterval: 1,
            ...(zoom ? {} : { min: -0.5, max: this.result.runs - 0.5, axisLabel: { showMinLabel: false, showMaxLabel: false } }) }),
          yAxis: yAxis(scene.theme, "", rate),
          series: this.rows(condition).filter((row) => !scene.hidden.has(row.scheduler)).map((row) => {
            const points = thin(row.by_run?.goodput_bps ?? [], 2000);
            return {
              type: "scatter",
              clip: true,
              symbol: scene.styles.get(row.scheduler)?.symbol ?? "circle",
              symbolSize: this.result.runs > 200 ? 4 : 8,
              itemStyle: { color: scene.colour(row.scheduler), opacity: 0.75 },
              data: points,
              tooltip: { formatter: (found: Any) => {
                const [from, , to] = found.value;
                const runs = to > from ? `mean of runs ${from} to ${to}` : `run ${from}`;
                return tip(label(row), [[runs, rate(found.value[1])]]);
              } },
              markLine: row.goodput_bps === null ? undefined : {
                silent: true, symbol: "none", label: { show: false }, lineStyle: lineStyle(scene, row.scheduler, 1.5),
                data: [{ yAxis: row.goodput_bps }],
              },
            };
          }),
        }),
      })),
      table: () => ({
        columns: ["condition", "contender", "run", "goodput bit/s", "mean completion time s", "flows delivered"],
        rows: this.result.rows.flatMap((row) => (row.by_run?.goodput_bps ?? []).map((value, run): Cell[] =>
          [row.condition, label(row), run, value, row.by_run?.fct_s[run] ?? null, row.by_run?.completed[run] ?? null])),
      }),
    };
  }

  private starts(prefix: string): Figure | null {
    const all = this.result.conditions.flatMap((condition) => condition.other_starts.map((start) => ({ condition, start })));
    const known = all.filter(({ start }) => start.changes.some((change) => change.difference_pct?.mean != null));
    if (!known.length) return null;
    const band = this.result.min_effect_pct;
    return {
      id: `${prefix}-starts`,
      title: "Starting on another path",
      note: `How the result of each contender changes if its first subflow is on another path, with intervals that hold together with 95 %. ` +
        (this.isBulk ? "Right of the line is more goodput." : "Left of the line is faster."),
      panels: () => known.map(({ condition, start }) => forest({
        title: [this.title(condition.name), `starting on ${pathName(start.path)} instead of ${pathName(condition.initial)}`].filter(Boolean).join(": "),
        axis: `change of the ${this.isBulk ? "goodput" : "mean completion time"}, %`,
        estimates: start.changes.filter((change) => change.difference_pct?.mean != null)
          .map((change) => estimate(change.scheduler, change.scheduler, change.difference_pct, band)),
        write: percentTick,
        line: 0,
        band,
      })),
      table: () => ({
        columns: ["condition", "first path", "contender", "change %", "low %", "high %"],
        rows: known.flatMap(({ condition, start }) => start.changes.map((change): Cell[] =>
          [condition.name, start.path, change.scheduler, ...ends(change.difference_pct)])),
      }),
    };
  }

  private shares(prefix: string): Figure | null {
    const all = this.result.fairness.flatMap((entry) =>
      (entry.parties.length ? entry.parties : entry.flows).map((party) => ({ condition: entry.condition, of: entry.scheduler, party })));
    const known = all.filter(({ party }) => party.vs_fair_pct?.mean != null);
    if (!known.length) return null;
    const named = ({ of, party }: (typeof all)[number]) =>
      `${of === party.scheduler || party.scheduler.endsWith(of) ? "" : `with ${of}: `}${party.scheduler}${party.flow === null ? "" : `, flow ${party.flow}`}`;
    return {
      id: `${prefix}-shares`,
      title: "Shares against a fair share",
      note: "Zero is exactly a fair share of the goodput; right of it is more. A hollow mark: the share and a fair one cannot be told apart.",
      panels: () => this.each((condition) => {
        const here = known.filter((entry) => entry.condition === condition);
        return here.length === 0 ? null : forest({
          title: this.title(condition),
          axis: "share against the fair share, %",
          estimates: here.map((entry) => ({
            ...estimate(entry.party.scheduler, named(entry), entry.party.vs_fair_pct, this.result.min_effect_pct),
            certain: entry.party.balance !== "undecided" && entry.party.balance !== "single_run",
            lines: [["share of all goodput", percent(entry.party.share_pct)], ["fair share", percent(entry.party.fair_share_pct)],
              ["against it", signed(entry.party.vs_fair_pct?.mean)], ["interval", interval(entry.party.vs_fair_pct?.ci95, signed)],
              ["goodput of a flow", rate(entry.party.goodput_bps?.mean)]],
          })),
          write: percentTick,
          line: 0,
          band: this.result.min_effect_pct,
        });
      }),
      table: () => ({
        columns: ["condition", "with", "party", "flow", "share %", "fair share %", "against fair %", "low %", "high %", "reading"],
        rows: all.map(({ condition, of, party }): Cell[] => [condition, of, party.scheduler, party.flow, party.share_pct,
          party.fair_share_pct, ...ends(party.vs_fair_pct), party.balance]),
      }),
    };
  }

  private jain(prefix: string): Figure | null {
    const known = this.result.fairness.filter((entry) => entry.jain?.mean != null);
    if (!known.length) return null;
    return {
      id: `${prefix}-jain`,
      title: "Jain's fairness index",
      note: "1 if all flows of a run have the same goodput, 1/n if one of n has everything; the mean over runs with its 95 % interval.",
      panels: () => this.each((condition) => {
        const here = known.filter((entry) => entry.condition === condition);
        return here.length === 0 ? null : forest({
          title: this.title(condition),
          axis: "Jain's index",
          estimates: here.map((entry) => ({
            ...estimate(entry.scheduler, entry.scheduler, entry.jain, 0), certain: true,
            lines: [["mean", number(entry.jain?.mean)], ["95 % interval", interval(entry.jain?.ci95, digits)]],
          })),
          write: plain,
          line: null,
          band: 0,
        });
      }),
      table: () => ({
        columns: ["condition", "contender", "Jain's index", "low", "high"],
        rows: known.map((entry): Cell[] => [entry.condition, entry.scheduler, ...ends(entry.jain)]),
      }),
    };
  }
}

const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0);
/** A table of a class, which has its name in each row: saved tables of several classes can be joined. */
const inClass = (traffic: string, table: Table): Table =>
  ({ columns: ["class", ...table.columns], rows: table.rows.map((row) => [traffic, ...row]) });

/** Where the flows of each condition, contender and class are in the samples. */
function groups(samples: Samples): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const traffics = samples.traffics ?? [""];
  const lists = samples.conditions.map((condition) => samples.schedulers.map((scheduler) => traffics.map((traffic) => {
    const list: number[] = [];
    found.set(`${condition}\n${scheduler}\n${traffic}`, list);
    return list;
  })));
  for (let at = 0; at < samples.run.length; at += 1) {
    lists[samples.condition[at] as number]?.[samples.scheduler[at] as number]?.[samples.traffic?.[at] ?? 0]?.push(at);
  }
  return found;
}

/** At most `most` points: the first run, the mean, the last run. */
function thin(values: (number | null)[], most: number): [number, number, number][] {
  const size = Math.ceil(values.length / most);
  const points: [number, number, number][] = [];
  for (let from = 0; from < values.length; from += size) {
    const part = values.slice(from, from + size).filter((value) => value !== null);
    if (part.length) points.push([from, sum(part) / part.length, Math.min(from + size, values.length) - 1]);
  }
  return points;
}

function boxSeries(times: Times, at: number, scene: Scene, of: Words): Any {
  const { ordered, row } = times;
  const colour = scene.colour(row.scheduler);
  const summary = ordered.length ? box(ordered) : null;
  const { mean, ci95 } = row.fct_s;
  return {
    type: "custom",
    yAxisIndex: 1,
    clip: true,
    z: 3,
    data: summary ? [[summary.low, at, summary.high, mean ?? summary.median, ...(ci95 ?? [summary.low, summary.high])]] : [],
    encode: { x: [0, 2, 3, 4, 5], y: 1 },
    renderItem: (_: Any, api: Any): Any => {
      if (!summary) return null;
      const point = (value: number, row: number): number[] => api.coord([value, row]);
      const [left, top] = point(summary.q1, at - 0.16) as [number, number];
      const [right, bottom] = point(summary.q3, at + 0.06) as [number, number];
      const [middle] = point(summary.median, at) as [number, number];
      const line = (x1: number, y1: number, x2: number, y2: number, lineWidth: number) =>
        ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth } });
      const centre = (top + bottom) / 2;
      const [low] = point(summary.low, at) as [number, number];
      const [high] = point(summary.high, at) as [number, number];
      const children: Any[] = [
        line(low, centre, left, centre, 1.5),
        line(right, centre, high, centre, 1.5),
        { type: "rect", shape: { x: left, y: top, width: Math.max(1, right - left), height: bottom - top },
          style: { fill: scene.theme.page, stroke: colour, lineWidth: 1.5 } },
        line(middle, top, middle, bottom, 3),
      ];
      if (ci95) children.push(whisker(point(ci95[0], at - 0.32), point(ci95[1], at - 0.32), colour, 5));
      if (mean !== null) {
        children.push(mark(scene.styles.get(row.scheduler)?.symbol ?? "circle", point(mean, at - 0.32), 9, colour, colour));
      }
      return { type: "group", children };
    },
    tooltip: { formatter: () => summary && tip(label(row), [
      ["mean", exactly(mean)], ["95 % interval", interval(ci95, exactly)],
      ["median", exactly(row.fct_s.p50)], ["95th percentile", exactly(row.fct_s.p95)], ["99th percentile", exactly(row.fct_s.p99)],
      ["middle half", interval([summary.q1, summary.q3], exactly)],
      [of.done, `${count(row.completed)} of ${count(row.n)} ${of.many}`],
      ...(row.video ? [["startup", seconds(row.video.startup_s.mean)], ["stalled", seconds(row.video.stalled_s)]] as [string, string][] : []),
      ...(row.datagrams ? [["datagrams lost", percent(100 * row.datagrams.lost_ratio)], ["95 % of the datagrams within", exactly(row.datagrams.delay_p95_s)],
        ["jitter", exactly(row.datagrams.jitter_s)]] as [string, string][] : [])]) },
  };
}
