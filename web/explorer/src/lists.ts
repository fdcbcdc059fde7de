// The lists of names that the module knows, and the presets that are made of them.

import { path, type PathState, type State } from "./state";

interface Item { name: string; what: string; key?: string; value?: string; linux?: string; ns3?: string }

export interface Lists {
  schedulers: Item[];
  congestion: Item[];
  presets: Item[];
  profiles: Item[];
}

const megabits = (text: string): number => {
  const [, number, unit] = /([\d.]+)\s*([kMG])bit\/s/.exec(text) ?? [];
  return Number(number) * ({ k: 1e-3, M: 1, G: 1e3 }[unit as "k" | "M" | "G"] ?? NaN);
};
const millis = (text: string): number => {
  const [, number, unit] = /([\d.]+)\s*(ms|s)/.exec(text) ?? [];
  return Number(number) * (unit === "s" ? 1000 : 1);
};

/** A path with the figures of a preset of the scenario's; downloads are the direction of its data. */
function preset(lists: Lists, name: string): PathState {
  const figures = new Map(lists.presets.filter((item) => item.name === name).map((item) => [item.key, item.value ?? ""]));
  const rate = figures.get("rate") ?? "";
  const [, down, up] = /down = "(.+?)", up = "(.+?)"/.exec(rate) ?? [];
  const rtt = millis(figures.get("rtt") ?? "");
  const queue = figures.get("queue") ?? "";
  const made = path(name, megabits(down ?? rate), rtt, {
    back: up ? megabits(up) : 0,
    queue: /BDP/.test(queue) ? Math.round(rtt * Number.parseFloat(queue.replace(/[^\d.]/g, ""))) : millis(queue),
    loss: Number.parseFloat((figures.get("loss") ?? "0").replace(/[^\d.]/g, "")) || 0,
  });
  const isWhole = [made.rate, made.rtt, made.queue].every((value) => Number.isFinite(value) && value > 0);
  if (!isWhole) throw new Error(`the preset ${name} has figures that this page cannot read`);
  return made;
}

export interface Preset { name: string; state(lists: Lists): Partial<State> }

export const PRESETS: Preset[] = [
  { name: "A phone: Wi-Fi and LTE", state: (lists) => ({ paths: [preset(lists, "wifi"), preset(lists, "lte")], size: 1000 }) },
  { name: "5G and cable", state: (lists) => ({ paths: [preset(lists, "5g"), preset(lists, "cable")], size: 10_000 }) },
  { name: "DSL and a geostationary satellite", state: (lists) => ({ paths: [preset(lists, "dsl"), preset(lists, "satellite-geo")], size: 1000 }) },
  { name: "DSL and a satellite in a low orbit", state: (lists) => ({ paths: [preset(lists, "dsl"), preset(lists, "satellite-leo")], size: 5000 }) },
  { name: "Two DSL lines", state: (lists) => ({ paths: [preset(lists, "dsl"), { ...preset(lists, "dsl"), name: "dsl-2" }], size: 5000 }) },
  {
    name: "DMPTCP's Figure 8: the paths and the size",
    state: () => ({
      paths: [path("1", 100, 20, { queue: 20 }), path("2", 100, 80, { queue: 80 })],
      size: 50, direction: "upload", profile: "ns3", schedulers: ["tcp", "min_rtt", "dmptcp"],
    }),
  },
  {
    name: "DMPTCP's Figure 12: the paths and the size",
    state: () => ({
      paths: [path("1", 100, 20, { queue: 20 }), path("2", 100, 100, { queue: 100 })],
      size: 100, direction: "upload", profile: "ns3", schedulers: ["tcp", "min_rtt", "dmptcp"], buffer: 20_000,
    }),
  },
  {
    name: "DMPTCP's Figure 13: the paths and the size",
    state: () => ({
      paths: [20, 100, 200, 400].map((rtt, at) => path(String(at + 1), 100, rtt, { queue: rtt })),
      size: 40, direction: "upload", profile: "ns3", schedulers: ["tcp", "min_rtt", "dmptcp"], buffer: 20_000,
    }),
  },
  {
    // The longest delay of the figure, 200 ms one way; 100 packets at 8 Mbit/s are 150 ms. The paper's flows are endless.
    name: "CP's Figure 11: the paths and the buffer",
    state: () => ({
      paths: [path("1", 8, 20, { queue: 150 }), path("2", 8, 400, { queue: 150 })],
      size: 10_000, direction: "upload", schedulers: ["tcp", "min_rtt", "cp_radical", "cp_conservative"], congestion: "newreno", buffer: 200, runs: 10,
    }),
  },
  {
    name: "STMS's Figure 8: the paths and a buffer",
    state: () => ({
      paths: [path("1", 30, 20, { queue: 50, loss: 0.01 }), path("2", 30, 200, { queue: 500, loss: 0.01 })],
      size: 20_000, direction: "upload", schedulers: ["tcp", "min_rtt", "stms_c", "stms_a"], congestion: "cubic", buffer: 800, runs: 10,
    }),
  },
];
