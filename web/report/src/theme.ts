// Colours that all eyes tell apart (Okabe and Ito's, as in the plots of the documentation), each with a symbol and a line of its
// own, so that nothing depends on colour alone.

export interface Theme {
  dark: boolean;
  page: string;
  text: string;
  dim: string;
  line: string;
  soft: string;
  /** Retransmissions. */
  warn: string;
  /** Reinjections. */
  note: string;
}

const LIGHT: Theme = { dark: false, page: "#ffffff", text: "#16202b", dim: "#55616e", line: "#d5dae0", soft: "#eef1f4",
  warn: "#d1290c", note: "#a0218f" };
const DARK: Theme = { dark: true, page: "#171d24", text: "#e6ebf0", dim: "#a3afbb", line: "#37424e", soft: "#222b35",
  warn: "#ff7a5c", note: "#f08ae0" };

export type Choice = "auto" | "light" | "dark";

export function themeOf(choice: Choice, printing: boolean): Theme {
  if (printing || choice === "light") return LIGHT;
  return choice === "dark" || matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT;
}

export type Symbol = "circle" | "rect" | "triangle" | "diamond";
export interface Style { light: string; dark: string; symbol: Symbol; dash: number[] }

/** Lengths of strokes and gaps in points, as `anabranch plot` draws them. Only the first is solid. */
const DASHES: number[][] = [
  [],
  [5, 2.2],
  [1.5, 2],
  [6.5, 2, 1.5, 2],
  [10, 3],
  [6.5, 2, 1.5, 2, 1.5, 2],
  [3, 1.8],
  [10, 2.2, 3, 2.2],
  [5, 2.2, 5, 2.2, 1.5, 2.2],
  [1.5, 1.5, 1.5, 3.5],
];
const SYMBOLS: Symbol[] = ["circle", "rect", "triangle", "diamond"];

/** Contenders that look the same on every page and in `anabranch plot`: crates/plot/src/style.rs has the same, and a test compares them. */
const KNOWN: Record<string, { light: string; dark: string; symbol: Symbol; dash: number }> = {
  tcp: { light: "#000000", dark: "#ffffff", symbol: "circle", dash: 1 },
  min_rtt: { light: "#0072B2", dark: "#4aa8e0", symbol: "rect", dash: 0 },
  dmptcp: { light: "#D55E00", dark: "#f58a3c", symbol: "diamond", dash: 4 },
  linux: { light: "#C98500", dark: "#E69F00", symbol: "triangle", dash: 3 },
  round_robin: { light: "#009E73", dark: "#2cc79a", symbol: "triangle", dash: 5 },
  redundant: { light: "#B8578F", dark: "#CC79A7", symbol: "circle", dash: 2 },
};
const COLOURS: [string, string][] = [
  ["#009E73", "#2cc79a"],
  ["#B8578F", "#CC79A7"],
  ["#2E93CC", "#7cc8f2"],
  ["#8A7A00", "#F0E442"],
  ["#0072B2", "#4aa8e0"],
  ["#D55E00", "#f58a3c"],
  ["#6b6b6b", "#bdbdbd"],
];

/** A pattern in pixels. */
const pixels = (dash: number): number[] => (DASHES[dash % DASHES.length] as number[]).map((points) => +(points * 4 / 3).toFixed(1));

/** Returns the free items in their order, then the others. */
const freeFirst = <T>(all: T[], isTaken: (one: T) => boolean): T[] => [...all.filter((one) => !isTaken(one)), ...all.filter(isTaken)];

/** A style for each contender: the same for a name on every page, as far as names are known. */
export function styles(names: string[]): Map<string, Style> {
  const known = (name: string) => (Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined);
  const taken = names.map(known).filter((style) => style !== undefined);
  const colours = freeFirst(COLOURS, ([light]) => taken.some((style) => style.light === light));
  const symbols = freeFirst(SYMBOLS, (symbol) => taken.some((style) => style.symbol === symbol));
  const dashes = freeFirst([...DASHES.keys()], (dash) => taken.some((style) => style.dash === dash));
  let next = 0;
  return new Map(names.map((name) => {
    const style = known(name);
    if (style) return [name, { ...style, dash: pixels(style.dash) }];
    const [light, dark] = colours[next % colours.length] as [string, string];
    const symbol = symbols[next % symbols.length] as Symbol;
    const dash = pixels(dashes[next % dashes.length] as number);
    next += 1;
    return [name, { light, dark, symbol, dash }];
  }));
}

/** Paths have colours beside those of contenders, and are told apart by lightness too. */
const PATHS: [string, string][] = [
  ["#3b528b", "#8fa6e8"],
  ["#5ec962", "#4fae55"],
  ["#c9b400", "#fde725"],
  ["#21918c", "#35b5ae"],
  ["#440154", "#b36bc9"],
  ["#9ad6a0", "#c9efc9"],
  ["#7a5c00", "#a58a3c"],
  ["#9a9a9a", "#d0d0d0"],
];

export function pathColour(at: number, theme: Theme): string {
  const pair = PATHS[at % PATHS.length] as [string, string];
  return theme.dark ? pair[1] : pair[0];
}

/** Subflows and links are told apart by their dashes too. */
export const subflowDash = (at: number): number[] => pixels(at);

/** The causes of an explanation, in its order: waits of hosts in blues and purples, the network in greens and yellows, losses and
 * order in reds, each lighter or darker than its neighbours. */
const CAUSES: [string, string][] = [
  ["#7f7f7f", "#9a9a9a"], // handshake
  ["#c7c7c7", "#5a5a5a"], // application
  ["#aec7e8", "#7f9cc4"], // send buffer
  ["#5f3c99", "#a987e0"], // receive window
  ["#0072B2", "#4aa8e0"], // congestion window
  ["#8fd0ff", "#bfe4ff"], // pacing
  ["#1b2a6b", "#6f80d8"], // scheduler
  ["#8A7A00", "#b8a93a"], // queueing
  ["#009E73", "#2cc79a"], // serialisation
  ["#b6e3a1", "#d3f0c6"], // propagation
  ["#7a1f00", "#c4552d"], // retransmission
  ["#E69F00", "#ffc14d"], // head-of-line
  ["#2b2b2b", "#e8e8e8"], // outage
];

export function causeColour(at: number, theme: Theme): string {
  const pair = CAUSES[Math.max(0, at) % CAUSES.length] as [string, string];
  return theme.dark ? pair[1] : pair[0];
}

/** Blue for better, orange for worse, `strength` from 0 to 1. */
export function diverging(better: boolean, strength: number, theme: Theme): string {
  const end = better ? [0, 92, 158] : [196, 78, 0];
  const begin = theme.dark ? [44, 54, 66] : [240, 242, 245];
  const share = 0.18 + 0.82 * Math.min(1, Math.max(0, strength));
  return `rgb(${begin.map((from, at) => Math.round(from + ((end[at] as number) - from) * share)).join(",")})`;
}
