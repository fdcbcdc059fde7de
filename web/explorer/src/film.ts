// One flow of one run, as the module films it: the packets, the windows and the receiver at any time.

import { lastAtMost, unpack } from "../../report/src/series";

/** As crates/recording/src/film.rs writes it; columns are packed texts. */
export interface FilmData {
  scheduler: string;
  run: number;
  paths: string[];
  sender: "client" | "server";
  start_ns: number;
  size_bytes: number | null;
  outcome: string;
  fct_ns: number | null;
  end_ns: number;
  whole: boolean;
  subflows: (number | null)[];
  kinds: string[];
  fates: string[];
  packets: Record<"t_ns" | "departed_ns" | "end_ns" | "path" | "way" | "kind" | "fate" | "from" | "to", string>;
  arrived: Record<"t_ns" | "from" | "to", string>;
  acks: Record<"t_ns" | "ack" | "edge", string>;
  lost: Record<"t_ns" | "subflow" | "from" | "to" | "reason", string> & { reasons: string[] };
  decisions: Record<"t_ns" | "decision" | "subflow" | "kind" | "from" | "to" | "rule", string> &
    { score: (number | null)[]; other: (number | null)[]; decisions: string[]; kinds: string[]; rules: string[] };
  windows: Record<"t_ns" | "subflow" | "cwnd_bytes" | "ssthresh_bytes" | "inflight_bytes" | "srtt_us", string>;
}

type Columns<T> = { [K in keyof T]: Float64Array };

const columns = <K extends string>(packed: Record<K, unknown>, keys: readonly K[]): Columns<Record<K, string>> =>
  Object.fromEntries(keys.map((key) => [key, unpack(packed[key] as string)])) as Columns<Record<K, string>>;

/** The kinds and fates by their places. */
export const KIND = { sent: 0, retransmitted: 1, reinjected: 2, probe: 3, control: 4 };
export const FATE = { arrived: 0, onItsWay: 1, droppedByQueue: 2, lost: 3 };

export interface Windows { t: number[]; cwnd: number[]; inflight: number[]; srtt: number[] }

/** The data that the receiver has, at a time that mostly moves forwards. */
class Receiver {
  private next = 0;
  /** The data beyond the delivered part, in ascending order, with no two that touch. */
  parts: [number, number][] = [];
  delivered = 0;

  constructor(private readonly arrived: Columns<FilmData["arrived"]>) {}

  seek(t: number): void {
    if (this.next > 0 && (this.arrived.t_ns[this.next - 1] as number) > t) [this.next, this.parts, this.delivered] = [0, [], 0];
    while (this.next < this.arrived.t_ns.length && (this.arrived.t_ns[this.next] as number) <= t) {
      this.add(this.arrived.from[this.next] as number, this.arrived.to[this.next] as number);
      this.next += 1;
    }
  }

  private add(from: number, to: number): void {
    if (from <= this.delivered) {
      this.delivered = Math.max(this.delivered, to);
      while (this.parts.length && (this.parts[0] as [number, number])[0] <= this.delivered) {
        this.delivered = Math.max(this.delivered, (this.parts.shift() as [number, number])[1]);
      }
      return;
    }
    let at = this.parts.length;
    while (at > 0 && (this.parts[at - 1] as [number, number])[1] >= from) at -= 1;
    let end = at;
    while (end < this.parts.length && (this.parts[end] as [number, number])[0] <= to) {
      from = Math.min(from, (this.parts[end] as [number, number])[0]);
      to = Math.max(to, (this.parts[end] as [number, number])[1]);
      end += 1;
    }
    this.parts.splice(at, end - at, [from, to]);
  }
}

export class Film {
  readonly packets;
  readonly acks;
  readonly lost;
  readonly decisions;
  readonly receiver: Receiver;
  /** By path. */
  readonly windows: Windows[];
  readonly begin: number;
  readonly end: number;
  /** The end of the data. */
  readonly size: number;
  /** The longest time of a packet in the network. */
  private readonly longest: number;

  constructor(readonly data: FilmData) {
    this.packets = columns(data.packets, ["t_ns", "departed_ns", "end_ns", "path", "way", "kind", "fate", "from", "to"]);
    this.acks = columns(data.acks, ["t_ns", "ack", "edge"]);
    this.lost = columns(data.lost, ["t_ns", "subflow", "from", "to", "reason"]);
    this.decisions = columns(data.decisions, ["t_ns", "decision", "subflow", "kind", "from", "to", "rule"]);
    this.receiver = new Receiver(columns(data.arrived, ["t_ns", "from", "to"]));
    const { t_ns, end_ns, to } = this.packets;
    this.begin = data.start_ns;
    this.end = Math.max(data.fct_ns === null ? data.end_ns : data.start_ns + data.fct_ns, this.begin + 1);
    let [longest, size] = [0, data.size_bytes ?? 0];
    for (let at = 0; at < t_ns.length; at += 1) {
      const end = end_ns[at] as number;
      if (end >= 0) longest = Math.max(longest, end - (t_ns[at] as number));
      size = Math.max(size, to[at] as number);
    }
    this.longest = Math.max(longest, 1);
    this.size = Math.max(size, 1);
    this.windows = data.paths.map(() => ({ t: [], cwnd: [], inflight: [], srtt: [] }));
    const rows = columns(data.windows, ["t_ns", "subflow", "cwnd_bytes", "inflight_bytes", "srtt_us"]);
    for (let at = 0; at < rows.t_ns.length; at += 1) {
      const windows = this.windows[this.pathOf(rows.subflow[at] as number) ?? -1];
      windows?.t.push(rows.t_ns[at] as number);
      windows?.cwnd.push(rows.cwnd_bytes[at] as number);
      windows?.inflight.push(rows.inflight_bytes[at] as number);
      windows?.srtt.push(rows.srtt_us[at] as number);
    }
  }

  /** The path of a subflow of the sender, if it has sent. */
  pathOf(subflow: number): number | null {
    return this.data.subflows[subflow] ?? null;
  }

  /** The places of the packets that may be in the network at `t`, or that ended at most `after` before it. */
  around(t: number, after: number): [number, number] {
    const first = lastAtMost(this.packets.t_ns, t - this.longest - after) + 1;
    return [Math.max(0, first), lastAtMost(this.packets.t_ns, t) + 1];
  }

  /** The last DATA_ACK at the sender, and the right edge of the window. */
  ackAt(t: number): { ack: number; edge: number } {
    const at = lastAtMost(this.acks.t_ns, t);
    return at < 0 ? { ack: 0, edge: 0 } : { ack: this.acks.ack[at] as number, edge: this.acks.edge[at] as number };
  }

  windowsAt(path: number, t: number): { cwnd: number; inflight: number; srtt: number } | null {
    const windows = this.windows[path];
    if (!windows) return null;
    const at = lastAtMost(windows.t as unknown as Float64Array, t);
    return at < 0 ? null : { cwnd: windows.cwnd[at] as number, inflight: windows.inflight[at] as number, srtt: windows.srtt[at] as number };
  }

  /** The last decision of the scheduler, as a sentence. */
  decisionAt(t: number): string {
    const at = lastAtMost(this.decisions.t_ns, t);
    if (at < 0) return "No decision yet: the scheduler is not asked while there is one subflow.";
    const { data } = this;
    const what = data.decisions.decisions[this.decisions.decision[at] as number] ?? "";
    const rule = (data.decisions.rules[this.decisions.rule[at] as number] ?? "").replaceAll("_", " ");
    const subflow = this.decisions.subflow[at] as number;
    const path = subflow < 0 ? null : this.pathOf(subflow);
    const where = subflow < 0 ? "" : ` ${path === null ? `subflow ${subflow}` : data.paths[path]}`;
    const [from, to] = [this.decisions.from[at] as number, this.decisions.to[at] as number];
    const kind = data.decisions.kinds[this.decisions.kind[at] as number];
    const range = from < 0 ? "" : `, bytes ${from.toLocaleString("en-GB")} to ${to.toLocaleString("en-GB")}`;
    const [score, other] = [data.decisions.score[at], data.decisions.other[at]];
    const scores = score == null ? "" : ` (score ${+score.toPrecision(4)}${other == null ? "" : `, the best other one ${+other.toPrecision(4)}`})`;
    const verb = what === "assign" ? `assigns ${kind === "new" || kind === undefined ? "data" : kind === "copy" ? "a copy" : "a reinjection"} to` : `${what}s`;
    const ago = ((t - (this.decisions.t_ns[at] as number)) / 1e6).toFixed(1);
    return `${data.scheduler} ${verb}${where}${range}: ${rule}${scores}, ${ago} ms ago.`;
  }
}
