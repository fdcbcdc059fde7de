// The state of the page: paths, traffic and contenders. It is written as the fragment of the address, a scenario file, a command and
// a line of Python, and read from the fragment.

export interface PathState {
  name: string;
  /** Mbit/s, in the direction of the data. */
  rate: number;
  /** Mbit/s in the other direction; 0: the same. */
  back: number;
  /** ms */
  rtt: number;
  /** Per cent, in the direction of the data. */
  loss: number;
  /** ms at the rate. */
  queue: number;
  /** ms */
  jitter: number;
  /** The name of a trace that replaces the rate; empty for none. */
  trace: string;
}

export interface State {
  paths: PathState[];
  /** KB */
  size: number;
  direction: "download" | "upload";
  schedulers: string[];
  /** Empty: the profile's. */
  congestion: string;
  profile: string;
  /** The name of a path, or `best`; empty: the first one. */
  initial: string;
  /** KB; 0: the profile's. */
  buffer: number;
  runs: number;
  seed: number;
}

export const MOST_PATHS = 4;
export const MOST_SCHEDULERS = 6;

export const path = (name: string, rate: number, rtt: number, more: Partial<PathState> = {}): PathState => ({
  name, rate, back: 0, rtt, loss: 0, queue: 100, jitter: 0, trace: "", ...more,
});

/** The state with which the page begins. */
export const FIRST: State = {
  paths: [path("wifi", 40, 20, { jitter: 2 }), path("lte", 20, 50, { queue: 200 })],
  size: 1000,
  direction: "download",
  schedulers: ["tcp", "linux", "dmptcp", "anabranch"],
  congestion: "",
  profile: "linux",
  initial: "",
  buffer: 0,
  runs: 30,
  seed: 1,
};

/** The numbers of a path: key, least and greatest value. The fragment and the sliders have the same bounds. */
export const BOUNDS = {
  rate: [0.1, 1000],
  back: [0, 1000],
  rtt: [1, 1000],
  loss: [0, 20],
  queue: [1, 2000],
  jitter: [0, 200],
} as const;
export const SIZES = [1, 100_000] as const;
export const BUFFERS = [0, 100_000] as const;
export const RUNS = [1, 200] as const;

/** The rate of the other direction and the receive buffer can be 0, and otherwise are at least these. */
export const LEAST_BACK = 0.01;
export const LEAST_BUFFER = 1;

/** The number in `text` between two bounds, or `other` if it is none. A number that is not 0 is at least `least`. It has six digits after the
 * point: a bit a second, a nanosecond or a part of a byte. */
export function numberIn(text: string | null | undefined, [lower, most]: readonly [number, number], other: number, least = lower): number {
  if (text == null || text.trim() === "") return other;
  const value = Number(text);
  if (!Number.isFinite(value)) return other;
  const bounded = Math.min(Math.max(value, value > 0 ? least : lower), most);
  return +bounded.toFixed(6);
}

/** A name that is the same in a file, on a command line and in a fragment. */
const plainName = (text: string, other: string): string => text.replace(/[^\w-]/g, "").slice(0, 24) || other;

export function toFragment(state: State): string {
  const parts = state.paths.map((path) => {
    const keys = ([["rate", 1], ["back", 0], ["rtt", 1], ["loss", 0], ["queue", 1], ["jitter", 0]] as const)
      .filter(([key, always]) => always || path[key] !== 0).map(([key]) => `${key}=${path[key]}`);
    return `path=${[path.name, ...keys].join(",")}`;
  });
  const pairs: [string, string | number][] = [
    ["size", state.size], ["direction", state.direction], ["schedulers", state.schedulers.join(",")], ["cc", state.congestion],
    ["profile", state.profile], ["initial", state.initial], ["buffer", state.buffer], ["runs", state.runs], ["seed", state.seed],
  ];
  return [...parts, ...pairs.filter(([key, value]) => value !== "" && (value !== 0 || key === "seed")).map(([key, value]) => `${key}=${value}`)].join("&");
}

/** The state of a fragment; missing parts are as at first. */
export function fromFragment(fragment: string): State {
  const found = new URLSearchParams(fragment.replace(/^#/, ""));
  const paths = found.getAll("path").slice(0, MOST_PATHS).map((text, at): PathState => {
    const [name, ...keys] = text.split(",");
    const values = new Map(keys.map((key) => key.split("=") as [string, string]));
    const base = path(plainName(name ?? "", String(at + 1)), 10, 50);
    for (const key of Object.keys(BOUNDS) as (keyof typeof BOUNDS)[]) {
      base[key] = numberIn(values.get(key), BOUNDS[key], base[key], key === "back" ? LEAST_BACK : undefined);
    }
    return base;
  });
  const word = (text: string | null) => plainName(text ?? "", "");
  const schedulers = (found.get("schedulers") ?? "").split(",").map((name) => name.replace(/[^\w@.-]/g, "")).filter(Boolean);
  const state: State = {
    paths: unique(paths.length > 0 ? paths : FIRST.paths.map((path) => ({ ...path }))),
    size: numberIn(found.get("size"), SIZES, FIRST.size),
    direction: found.get("direction") === "upload" ? "upload" : "download",
    schedulers: schedulers.length ? [...new Set(schedulers)].slice(0, MOST_SCHEDULERS) : [...FIRST.schedulers],
    congestion: word(found.get("cc")),
    profile: word(found.get("profile")) || FIRST.profile,
    initial: word(found.get("initial")),
    buffer: numberIn(found.get("buffer"), BUFFERS, 0, LEAST_BUFFER),
    runs: Math.round(numberIn(found.get("runs"), RUNS, FIRST.runs)),
    seed: Math.round(numberIn(found.get("seed"), [0, 2 ** 53 - 1], FIRST.seed)),
  };
  if (state.initial !== "best" && !state.paths.some((path) => path.name === state.initial)) state.initial = "";
  return state;
}

/** Gives paths with the same name a number; `best` as a first path is no name of one. */
export function unique(paths: PathState[]): PathState[] {
  const names = new Set(["best"]);
  for (const path of paths) {
    const name = path.name;
    for (let at = 2; names.has(path.name); at += 1) path.name = `${name}-${at}`;
    names.add(path.name);
  }
  return paths;
}

const quoted = (text: string): string => JSON.stringify(text);
export const sizeText = (kilobytes: number): string => (kilobytes >= 1000 ? `${+(kilobytes / 1000).toFixed(6)} MB` : `${kilobytes} KB`);

/** The rates of a path by direction, as the scenario has them. */
function rates(path: PathState, direction: State["direction"]): { down: number; up: number } | null {
  if (!path.back || path.back === path.rate) return null;
  return direction === "download" ? { down: path.rate, up: path.back } : { down: path.back, up: path.rate };
}

/** The scenario file, with this number of runs, and the contender with which the others are compared if it is given. */
export function toToml(state: State, runs = state.runs, reference = ""): string {
  const lines = [
    `profile = ${quoted(state.profile)}`,
    `schedulers = [${state.schedulers.map(quoted).join(", ")}]`,
    `runs = ${runs}`,
    `seed = ${state.seed}`,
  ];
  if (reference) lines.push(`reference = ${quoted(reference)}`);
  if (state.congestion) lines.push(`congestion = ${quoted(state.congestion)}`);
  if (state.initial) lines.push(`initial = ${quoted(state.initial)}`);
  for (const path of state.paths) {
    const both = rates(path, state.direction);
    lines.push("", "[[path]]", `name = ${quoted(path.name)}`);
    if (path.trace) lines.push(`trace = ${quoted(path.trace)}`);
    else if (both) lines.push(`rate = { down = "${both.down} Mbit/s", up = "${both.up} Mbit/s" }`);
    else lines.push(`rate = "${path.rate} Mbit/s"`);
    lines.push(`rtt = "${path.rtt} ms"`, `queue = "${path.queue} ms"`);
    if (path.loss) lines.push(`loss = "${path.loss}%"`);
    if (path.jitter) lines.push(`jitter = "${path.jitter} ms"`);
  }
  lines.push("", "[traffic]", `size = "${sizeText(state.size)}"`, `direction = ${quoted(state.direction)}`);
  if (state.buffer) lines.push("", "[connection]", `receive-buffer = "${sizeText(state.buffer)}"`);
  return `${lines.join("\n")}\n`;
}

/** The command that prints the same comparison. */
export function toCommand(state: State): string {
  const words = ["anabranch compare"];
  for (const path of state.paths) {
    const both = rates(path, state.direction);
    const rate = path.trace ? `trace=${path.trace}` : both ? `rate=${both.down}Mbit/s:${both.up}Mbit/s` : `${path.rate}Mbit/s`;
    const keys = [rate, `rtt=${path.rtt}ms`, `queue=${path.queue}ms`];
    if (path.loss) keys.push(`loss=${path.loss}%`);
    if (path.jitter) keys.push(`jitter=${path.jitter}ms`);
    words.push(`--path ${[...keys, `name=${path.name}`].join(",")}`);
  }
  words.push(`--size ${sizeText(state.size).replace(" ", "")}`, `--set traffic.direction=${state.direction}`);
  words.push(`--schedulers ${state.schedulers.join(",")}`, `--profile ${state.profile}`);
  if (state.congestion) words.push(`--cc ${state.congestion}`);
  if (state.initial) words.push(`--initial ${state.initial}`);
  if (state.buffer) words.push(`--set receive-buffer=${sizeText(state.buffer).replace(" ", "")}`);
  words.push(`--runs ${state.runs}`, `--seed ${state.seed}`);
  return words.join(" \\\n    ");
}

/** Lines of Python that print the same comparison. */
export function toPython(state: State): string {
  return `import anabranch\nfrom anabranch import Scenario\n\nscenario = Scenario.from_toml("""\n${toToml(state)}""")\n` +
    "print(anabranch.compare(scenario))\n";
}
