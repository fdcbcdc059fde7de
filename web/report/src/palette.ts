// Generated from crates/plot/src/palette.rs; a test there compares this file, and rewrites it with ANABRANCH_BLESS=1.

export type Symbol = "circle" | "rect" | "triangle" | "diamond";

/** Lengths of strokes and gaps in points. Only the first is solid. */
export const DASHES: number[][] = [
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
export const SYMBOLS: Symbol[] = ["circle", "rect", "triangle", "diamond"];

/** Contenders that look the same in every figure. */
export const KNOWN: Record<string, { light: string; dark: string; symbol: Symbol; dash: number }> = {
  tcp: { light: "#000000", dark: "#ffffff", symbol: "circle", dash: 1 },
  min_rtt: { light: "#0072B2", dark: "#4aa8e0", symbol: "rect", dash: 0 },
  dmptcp: { light: "#D55E00", dark: "#f58a3c", symbol: "diamond", dash: 4 },
  linux: { light: "#C98500", dark: "#E69F00", symbol: "triangle", dash: 3 },
  round_robin: { light: "#009E73", dark: "#2cc79a", symbol: "triangle", dash: 5 },
  redundant: { light: "#B8578F", dark: "#CC79A7", symbol: "circle", dash: 2 },
};

/** The colours of other contenders, on white and on a dark page. */
export const COLOURS: [string, string][] = [
  ["#009E73", "#2cc79a"],
  ["#B8578F", "#CC79A7"],
  ["#2E93CC", "#7cc8f2"],
  ["#8A7A00", "#F0E442"],
  ["#0072B2", "#4aa8e0"],
  ["#D55E00", "#f58a3c"],
  ["#6b6b6b", "#bdbdbd"],
];

/** Subflows, paths and links, on white and on a dark page. */
export const PATHS: [string, string][] = [
  ["#3b528b", "#8fa6e8"],
  ["#5ec962", "#4fae55"],
  ["#c9b400", "#fde725"],
  ["#21918c", "#35b5ae"],
  ["#440154", "#b36bc9"],
  ["#9ad6a0", "#c9efc9"],
  ["#7a5c00", "#a58a3c"],
  ["#9a9a9a", "#d0d0d0"],
];

/** The causes of an explanation, in its order, on white and on a dark page. */
export const CAUSES: [string, string][] = [
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
  ["#E69F00", "#ffc14d"], // head of line
  ["#2b2b2b", "#e8e8e8"], // outage
];

/** Words, axes, retransmissions and reinjections, on white and on a dark page. */
export const LIGHT_INK = { text: "#16202b", dim: "#55616e", line: "#d5dae0", warn: "#d1290c", note: "#a0218f" };
export const DARK_INK = { text: "#e6ebf0", dim: "#a3afbb", line: "#37424e", warn: "#ff7a5c", note: "#f08ae0" };

/** The ends of the scale of differences, and its beginning on white and on a dark page. */
export const BETTER = "#005c9e";
export const WORSE = "#c44e00";
export const NO_DIFFERENCE: [string, string] = ["#f0f2f5", "#2c3642"];
