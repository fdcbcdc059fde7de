// The rows of a comparison: their names, and their differences from the reference.

import type { Difference, Row } from "./results";
import type { Cell } from "./dom";
import type { Estimate } from "./forest";
import { interval, NONE, pathName, signed } from "./format";

/** The name of a contender: plain TCP with its path. Traffic of a class that does not use the contender has its path whatever that is. */
export const label = (row: Row): string =>
  row.path === null || !usesContender(row) ? row.scheduler : `${row.scheduler} (${pathName(row.path)})`;

export const usesContender = (row: Row): boolean => row.transport === undefined || row.transport === "contender";

/** The mean of a difference and the ends of its interval. */
export const ends = (of: Difference | null): Cell[] => [of?.mean ?? null, of?.ci95?.[0] ?? null, of?.ci95?.[1] ?? null];

/** A difference as a mark with its interval. */
export function estimate(contender: string, label: string, of: Difference | null, band: number): Estimate {
  const [low, high] = of?.ci95 ?? [-Infinity, Infinity];
  return {
    contender,
    label,
    value: of?.mean ?? 0,
    interval: of?.ci95 ?? null,
    // As the verdict reads it: outside the band, or within it.
    certain: low > 0 || high < 0 || (low >= -band && high <= band),
    lines: [["mean", signed(of?.mean)], ["interval", of?.ci95 ? interval(of.ci95, signed) : NONE]],
  };
}
