// The looks of contenders, paths and causes in a figure, from the palette that all figures share: nothing depends on colour only.

import { BETTER, CAUSES, COLOURS, DARK_INK, DASHES, KNOWN, LIGHT_INK, NO_DIFFERENCE, PATHS, SYMBOLS, WORSE, type Symbol } from "./palette";

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

const LIGHT: Theme = { dark: false, page: "#ffffff", soft: "#eef1f4", ...LIGHT_INK };
const DARK: Theme = { dark: true, page: "#171d24", soft: "#222b35", ...DARK_INK };

export type Choice = "auto" | "light" | "dark";

export function themeOf(choice: Choice, printing: boolean): Theme {
  if (printing || choice === "light") return LIGHT;
  return choice === "dark" || matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT;
}

export interface Style { light: string; dark: string; symbol: Symbol; dash: number[] }

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

export function pathColour(at: number, theme: Theme): string {
  const pair = PATHS[at % PATHS.length] as [string, string];
  return theme.dark ? pair[1] : pair[0];
}

/** Subflows and links are told apart by their dashes too. */
export const subflowDash = (at: number): number[] => pixels(at);

export function causeColour(at: number, theme: Theme): string {
  const pair = CAUSES[Math.max(0, at) % CAUSES.length] as [string, string];
  return theme.dark ? pair[1] : pair[0];
}

/** Blue for better, orange for worse, `strength` from 0 to 1. */
export function diverging(better: boolean, strength: number, theme: Theme): string {
  const parts = (colour: string) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const end = parts(better ? BETTER : WORSE);
  const begin = parts(NO_DIFFERENCE[theme.dark ? 1 : 0]);
  const share = 0.18 + 0.82 * Math.min(1, Math.max(0, strength));
  return `rgb(${begin.map((from, at) => Math.round(from + ((end[at] as number) - from) * share)).join(",")})`;
}
