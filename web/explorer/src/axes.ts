// The values of the experiment that a map can vary, under the keys of `anabranch sweep`.

import { BOUNDS, BUFFERS, numberIn, type PathState, SIZES, type State } from "./state";

/** The values around the one of the experiment, as multiples of it. */
const FACTORS = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8];
/** The runs of each point. */
export const RUNS = 5;

/** A value that can be varied. */
export interface Key {
  /** Its key in a scenario. */
  name: string;
  unit: string;
  /** The values if the value of the experiment is 0. */
  others: number[];
  bounds: readonly [number, number];
  get(state: State): number;
  set(state: State, value: number): void;
}

export function keys(state: State): Key[] {
  const own = (name: string, key: "rate" | "rtt" | "loss" | "queue" | "jitter", unit: string, others: number[]): Key => {
    const of = (state: State) => state.paths.find((path) => path.name === name) as PathState;
    return { name: `path.${name}.${key}`, unit, others, bounds: BOUNDS[key], get: (state) => of(state)[key], set: (state, value) => (of(state)[key] = value) };
  };
  /** The rate of both directions, or of the direction of the data if the other one has its own. */
  const rate = (name: string, hasBack: boolean): Key => {
    const key = own(name, "rate", "Mbit/s", []);
    if (hasBack) return { ...key, name: `${key.name}.${state.direction === "download" ? "down" : "up"}` };
    const set = (state: State, value: number) => {
      for (const path of state.paths) if (path.name === name) [path.rate, path.back] = [value, 0];
    };
    return { ...key, set };
  };
  const all = state.paths.flatMap(({ name, trace, ...path }) => [
    ...(trace ? [] : [rate(name, path.back > 0 && path.back !== path.rate)]),
    own(name, "rtt", "ms", []),
    own(name, "loss", "%", [0, 0.1, 0.3, 1, 2, 3, 5]),
    own(name, "queue", "ms", []),
    // No 0: a path with a jitter of 0 has not even the jitter of hosts, which the paths of the page have.
    own(name, "jitter", "ms", [0.1, 1, 2, 5, 10, 20, 50]),
  ]);
  return [
    ...all,
    { name: "traffic.size", unit: "KB", others: [], bounds: SIZES, get: (state) => state.size, set: (state, value) => (state.size = value) },
    { name: "receive-buffer", unit: "KB", others: [50, 100, 200, 500, 1000, 2000, 5000], bounds: [1, BUFFERS[1]], get: (state) => state.buffer,
      set: (state, value) => (state.buffer = value) },
  ];
}

/** The values of a key in the map. */
export function values(key: Key, state: State): number[] {
  const now = key.get(state);
  if (now === 0) return key.others;
  const all = FACTORS.map((factor) => numberIn(String(+(now * factor).toPrecision(3)), key.bounds, now));
  return [...new Set(all)];
}

/** The words of the command that makes the same table from the scenario file. */
export function toSweep(reference: string, axes: [Key, number[]][]): string {
  const vary = axes.map(([key, values]) => ` \\\n    --vary '${key.name}=${values.map((value) => `${value}${key.unit}`).join(",")}'`);
  return `sweep explorer.toml --set reference=${reference} --runs ${RUNS}${vary.join("")}`;
}
