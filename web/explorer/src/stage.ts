// The animation of one film: packets on the paths, the stream at the receiver, and two graphs with the same time.

import { el } from "../../report/src/dom";
import { bytes } from "../../report/src/format";
import { pathColour, subflowDash, type Theme } from "../../report/src/theme";
import { FATE, type Film, KIND } from "./film";

/** Where the queue of a path ends and its flight begins, as shares of the width. */
const QUEUE = [0.02, 0.2] as const;
const FLIGHT = [0.22, 0.98] as const;
const LANE = 62;
const STREAM = 54;
const GRAPH = 190;
const WINDOWS = 120;
const MARGIN = { left: 52, right: 8, top: 6, bottom: 18 };
/** A dropped packet is shown for this share of the film after its end. */
const AFTERGLOW = 0.01;

const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";

/** A canvas with the density of the screen. */
class Surface {
  readonly canvas = el("canvas");
  width = 0;

  constructor(private height: number, label: string) {
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
  }

  /** Clears the canvas, and returns its context with a scale of CSS pixels. */
  begin(height = this.height): CanvasRenderingContext2D {
    const ratio = devicePixelRatio || 1;
    this.height = height;
    this.width = this.canvas.clientWidth || 300;
    const [width, tall] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== tall) {
      [this.canvas.width, this.canvas.height] = [width, tall];
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    return context;
  }
}

export class Stage {
  readonly element = el("div", { class: "stage" });
  private readonly paths: Surface;
  private readonly stream: Surface;
  private readonly graph: Surface;
  private readonly windows: Surface;
  private readonly text = el("p", { class: "dim reasons" });
  private readonly heading = el("h4");
  /** The graphs without the line of the time. */
  private kept: { graph: HTMLCanvasElement; windows: HTMLCanvasElement } | null = null;

  constructor(private film: Film, private readonly theme: () => Theme, seek: (t: number) => void) {
    this.paths = new Surface(LANE, "Packets on the paths");
    this.stream = new Surface(STREAM, "The stream: acknowledged, delivered, waiting at the receiver, sent");
    this.graph = new Surface(GRAPH, "Time-sequence graph");
    this.windows = new Surface(WINDOWS, "Congestion windows and bytes in flight");
    this.element.append(this.heading, this.paths.canvas, this.stream.canvas, this.text, this.graph.canvas, this.windows.canvas);
    for (const surface of [this.graph, this.windows]) {
      surface.canvas.addEventListener("click", (event) => {
        const share = (event.offsetX - MARGIN.left) / Math.max(1, surface.width - MARGIN.left - MARGIN.right);
        seek(Math.min(1, Math.max(0, share)));
      });
    }
  }

  /** Shows another film in the same place. */
  set(film: Film): void {
    this.film = film;
    this.kept = null;
  }

  /** Forgets the graphs, which depend on the size and the theme. */
  refresh(): void {
    this.kept = null;
  }

  /** Draws the time `t` on graphs that end at `end`, which several films share. */
  draw(t: number, begin: number, end: number): void {
    const { data } = this.film;
    const took = data.fct_ns === null ? (data.outcome === "running" ? "not done within the deadline" : data.outcome) : `done after ${(data.fct_ns / 1e6).toFixed(1)} ms`;
    this.heading.textContent = `${data.scheduler}, run ${data.run}: ${took}${data.whole ? "" : " (the film ends before the run)"}`;
    const summary = this.drawPaths(t, end - begin);
    this.drawStream(t);
    this.drawGraphs(t, begin, end);
    this.text.replaceChildren(el("span", {}, summary), el("br"), el("span", {}, this.film.decisionAt(t)));
  }

  private colour(path: number): string {
    return pathColour(path, this.theme());
  }

  /** Draws a lane for each path: its queue, packets in flight, and below them the acknowledgements. */
  private drawPaths(t: number, span: number): string {
    const { film } = this;
    const theme = this.theme();
    const context = this.paths.begin(LANE * film.data.paths.length + 4);
    const width = this.paths.width;
    const { packets } = film;
    const isDownload = film.data.sender === "server";
    const queued = film.data.paths.map(() => 0);
    const flying = film.data.paths.map(() => 0);
    // Both hosts and the lanes.
    film.data.paths.forEach((name, path) => {
      const top = path * LANE;
      context.strokeStyle = theme.line;
      context.strokeRect(width * QUEUE[0], top + 24, width * (QUEUE[1] - QUEUE[0]), 12);
      context.beginPath();
      context.moveTo(width * FLIGHT[0], top + 30);
      context.lineTo(width * FLIGHT[1], top + 30);
      context.moveTo(width * FLIGHT[0], top + 47);
      context.lineTo(width * FLIGHT[1], top + 47);
      context.stroke();
      const windows = film.windowsAt(path, t);
      context.fillStyle = this.colour(path);
      context.fillRect(width * QUEUE[0], top + 6, 10, 10);
      context.fillStyle = theme.text;
      const more = windows && width > 320
        ? `  congestion window ${bytes(windows.cwnd)}${windows.srtt > 0 ? `, RTT ${(windows.srtt / 1e3).toFixed(1)} ms` : ""}`
        : "";
      context.fillText(`${name}${more}`, width * QUEUE[0] + 15, top + 11, width * 0.95);
    });
    const [first, last] = film.around(t, span * AFTERGLOW);
    // The oldest packet of a queue is at its exit.
    const places = film.data.paths.map(() => 0);
    for (let at = first; at < last; at += 1) {
      const path = packets.path[at] as number;
      const end = packets.end_ns[at] as number;
      const fate = packets.fate[at] as number;
      const isAck = packets.way[at] === 1;
      const departed = packets.departed_ns[at] as number;
      const sent = packets.t_ns[at] as number;
      const isOver = end >= 0 && end <= t;
      if (isOver && (fate === FATE.arrived || end < t - span * AFTERGLOW)) continue;
      const top = path * LANE;
      const flight = (share: number) => {
        const along = FLIGHT[0] + (FLIGHT[1] - FLIGHT[0]) * Math.min(1, Math.max(0, share));
        return width * (isAck ? FLIGHT[1] + FLIGHT[0] - along : along);
      };
      const y = top + (isAck ? 47 : 30);
      if (isOver) {
        const x = fate === FATE.droppedByQueue ? width * QUEUE[0] + 4 : flight(0.5);
        context.strokeStyle = theme.warn;
        context.lineWidth = 2;
        context.beginPath();
        context.moveTo(x - 4, y - 4);
        context.lineTo(x + 4, y + 4);
        context.moveTo(x + 4, y - 4);
        context.lineTo(x - 4, y + 4);
        context.stroke();
        context.lineWidth = 1;
        continue;
      }
      const kind = packets.kind[at] as number;
      const isQueued = !isAck && (departed < 0 || departed > t);
      if (!isAck && kind !== KIND.control) (isQueued ? queued : flying)[path] = ((isQueued ? queued : flying)[path] as number) + 1;
      const wait = departed >= 0 ? departed : end;
      let x = flight(end > wait ? (t - wait) / (end - wait) : (t - sent) / Math.max(1, end - sent));
      if (isQueued) {
        x = width * QUEUE[1] - 4 - 3 * (places[path] as number);
        places[path] = (places[path] as number) + 1;
        if (x < width * QUEUE[0] + 2) continue;
      }
      const mark = kind === KIND.retransmitted || kind === KIND.probe ? theme.warn : kind === KIND.reinjected ? theme.note : this.colour(path);
      context.fillStyle = isAck || kind === KIND.control ? theme.dim : mark;
      const [w, h] = isAck ? [2, 8] : kind === KIND.control ? [3, 6] : isQueued ? [2, 10] : [5, 12];
      context.fillRect(x - w / 2, y - h / 2, w, h);
      // A shape too, for those who do not tell the colours apart.
      if (!isAck && (kind === KIND.retransmitted || kind === KIND.reinjected)) {
        context.strokeStyle = theme.text;
        context.strokeRect(x - w / 2 - 1.5, y - h / 2 - (kind === KIND.reinjected ? 4 : 1.5), w + 3, h + 3);
      }
    }
    const parts = film.data.paths.map((name, path) => `${name} ${queued[path]} queued, ${flying[path]} in flight`);
    this.paths.canvas.setAttribute("aria-label", `Packets from ${isDownload ? "the server to the client" : "the client to the server"}: ${parts.join("; ")}`);
    this.paths.canvas.dataset.packets = String(queued.reduce((a, b) => a + b, 0) + flying.reduce((a, b) => a + b, 0));
    return `${((t - film.begin) / 1e6).toFixed(1)} ms: ${parts.join("; ")}.`;
  }

  /** Draws the stream as a bar: delivered in order, waiting behind holes, sent, and the receiver's window. */
  private drawStream(t: number): void {
    const { film } = this;
    const theme = this.theme();
    const context = this.stream.begin();
    const width = this.stream.width;
    const left = 8;
    const x = (offset: number) => left + (width - 2 * left) * Math.min(1, offset / film.size);
    film.receiver.seek(t);
    const { delivered, parts } = film.receiver;
    const { ack, edge } = film.ackAt(t);
    const waiting = parts.reduce((sum, [from, to]) => sum + to - from, 0);
    context.strokeStyle = theme.dim;
    context.strokeRect(left, 26, width - 2 * left, 16);
    context.fillStyle = theme.dark ? "#4aa8e0" : "#0072B2";
    context.fillRect(left, 26, x(delivered) - left, 16);
    context.fillStyle = theme.dark ? "#E69F00" : "#C98500";
    for (const [from, to] of parts) context.fillRect(x(from), 26, Math.max(1, x(to) - x(from)), 16);
    const line = (offset: number, dash: number[], down: number) => {
      context.setLineDash(dash);
      context.strokeStyle = theme.text;
      context.beginPath();
      context.moveTo(x(offset), 22);
      context.lineTo(x(offset), down);
      context.stroke();
      context.setLineDash([]);
    };
    line(ack, [], 46);
    if (edge > 0 && edge < film.size) line(edge, [3, 2], 50);
    context.fillStyle = theme.text;
    const held = waiting > 0 ? `${bytes(waiting)} wait behind ${parts.length} hole${parts.length === 1 ? "" : "s"}` : "nothing waits";
    const text = `receiver: ${bytes(delivered)} of ${bytes(film.size)} in order, ${held}; DATA_ACK ${bytes(ack)}${edge > 0 && edge < film.size ? `, window to ${bytes(edge)}` : ""}`;
    context.fillText(text, left, 11, width - 2 * left);
    this.stream.canvas.setAttribute("aria-label", text);
    this.stream.canvas.dataset.holes = String(parts.length);
  }

  private drawGraphs(t: number, begin: number, end: number): void {
    const ratio = devicePixelRatio || 1;
    if (!this.kept) {
      const copy = ({ canvas }: CanvasRenderingContext2D) => {
        const kept = el("canvas");
        [kept.width, kept.height] = [canvas.width, canvas.height];
        kept.getContext("2d")?.drawImage(canvas, 0, 0);
        return kept;
      };
      this.kept = { graph: copy(this.sequence(begin, end)), windows: copy(this.windowLines(begin, end)) };
    }
    for (const [surface, image] of [[this.graph, this.kept.graph], [this.windows, this.kept.windows]] as const) {
      const context = surface.canvas.getContext("2d") as CanvasRenderingContext2D;
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, image.width, image.height);
      context.drawImage(image, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const x = MARGIN.left + (surface.width - MARGIN.left - MARGIN.right) * Math.min(1, (t - begin) / (end - begin));
      context.strokeStyle = this.theme().text;
      context.beginPath();
      context.moveTo(x, MARGIN.top);
      context.lineTo(x, image.height / ratio - MARGIN.bottom);
      context.stroke();
    }
  }

  /** Axes with a scale for times and values. */
  private axes(surface: Surface, height: number, begin: number, end: number, most: number, title: string) {
    const theme = this.theme();
    const context = surface.begin(height);
    const [right, bottom] = [surface.width - MARGIN.right, height - MARGIN.bottom];
    const x = (t: number) => MARGIN.left + ((right - MARGIN.left) * (t - begin)) / (end - begin);
    const y = (value: number) => bottom - ((bottom - MARGIN.top) * value) / most;
    context.strokeStyle = theme.line;
    context.fillStyle = theme.dim;
    context.strokeRect(MARGIN.left, MARGIN.top, right - MARGIN.left, bottom - MARGIN.top);
    context.textAlign = "right";
    for (const share of [0, 0.5, 1]) context.fillText(bytes(most * share), MARGIN.left - 4, Math.max(y(most * share), MARGIN.top + 6));
    context.textAlign = "center";
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const at = begin + share * (end - begin);
      context.textAlign = share === 1 ? "right" : "center";
      context.fillText(`${((at - begin) / 1e6).toFixed(end - begin < 2e7 ? 1 : 0)}${share === 1 ? " ms" : ""}`, x(at), height - 8);
    }
    context.textAlign = "left";
    context.fillText(title, MARGIN.left + 6, MARGIN.top + 9, right - MARGIN.left - 12);
    return { context, x, y };
  }

  private sequence(begin: number, end: number): CanvasRenderingContext2D {
    const { film } = this;
    const theme = this.theme();
    const { context, x, y } = this.axes(this.graph, GRAPH, begin, end, film.size, "data sent by offset; lines: DATA_ACK, and dashed the window");
    const { packets, acks } = film;
    for (let at = 0; at < packets.t_ns.length; at += 1) {
      const kind = packets.kind[at] as number;
      if (packets.way[at] === 1 || kind === KIND.control || packets.to[at] === packets.from[at]) continue;
      const [left, top] = [x(packets.t_ns[at] as number), y(packets.to[at] as number)];
      const tall = Math.max(2, y(packets.from[at] as number) - top);
      context.fillStyle = kind === KIND.sent ? this.colour(packets.path[at] as number) : kind === KIND.reinjected ? theme.note : theme.warn;
      if (kind === KIND.sent) context.fillRect(left, top, 2, tall);
      else context.fillRect(left - 2, top - 1, 5, tall + 2);
    }
    const line = (values: Float64Array, dash: number[]) => {
      context.setLineDash(dash);
      context.strokeStyle = theme.dim;
      context.beginPath();
      let last = 0;
      context.moveTo(x(begin), y(0));
      for (let at = 0; at < values.length; at += 1) {
        const value = Math.min(values[at] as number, film.size);
        context.lineTo(x(acks.t_ns[at] as number), y(last));
        context.lineTo(x(acks.t_ns[at] as number), y(value));
        last = value;
      }
      context.stroke();
      context.setLineDash([]);
    };
    line(acks.ack, []);
    line(acks.edge, [3, 3]);
    return context;
  }

  private windowLines(begin: number, end: number): CanvasRenderingContext2D {
    const { film } = this;
    let most = 1;
    for (const windows of film.windows) {
      windows.t.forEach((t, at) => {
        if (t <= end) most = Math.max(most, windows.cwnd[at] as number, windows.inflight[at] as number);
      });
    }
    const { context, x, y } = this.axes(this.windows, WINDOWS, begin, end, most, "congestion windows, and thin the bytes in flight");
    film.windows.forEach((windows, path) => {
      for (const [values, width] of [[windows.cwnd, 2], [windows.inflight, 0.8]] as const) {
        context.strokeStyle = this.colour(path);
        context.lineWidth = width;
        context.setLineDash(width > 1 ? subflowDash(path) : []);
        context.beginPath();
        windows.t.forEach((t, at) => {
          if (t > end) return;
          const before = values[at - 1];
          if (before === undefined) context.moveTo(x(t), y(values[at] as number));
          else context.lineTo(x(t), y(before));
          context.lineTo(x(t), y(values[at] as number));
        });
        context.stroke();
      }
    });
    context.setLineDash([]);
    context.lineWidth = 1;
    return context;
  }
}
