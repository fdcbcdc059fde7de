// The data of each path and its cost, where paths have a price or a quota.

import type { Table } from "./dom";
import { number } from "./format";
import type { Comparison, PathUsage } from "./results";

/** The table of a comparison; none if no path has a price or a quota. */
export function usageTable(result: Comparison): Table | null {
  const usage = result.usage ?? [];
  if (!usage.length) return null;
  const isUnder = result.conditions.length > 1;
  const rows = usage.flatMap((row, at) => {
    const own = usage.filter((other) => other.condition === row.condition && other.scheduler === row.scheduler);
    const next = usage[at + 1];
    const isLast = next?.condition !== row.condition || next.scheduler !== row.scheduler;
    const condition = isUnder ? [row.condition] : [];
    const line = (path: string, of: PathUsage[], quota: string) => [
      ...condition, row.scheduler, path, ...[sum(of, "up_bytes", 1e6), sum(of, "down_bytes", 1e6), sum(of, "cost", 1)], quota,
    ];
    return [line(row.path, [row], quota(row)), ...(isLast && own.length > 1 ? [line("all", own, "")] : [])];
  });
  return { columns: [...(isUnder ? ["condition"] : []), "contender", "path", "up MB", "down MB", "cost", "quota"], rows };
}

/** A number as the table of the command has it, so that both can be compared. */
const sum = (rows: PathUsage[], key: "up_bytes" | "down_bytes" | "cost", unit: number): number =>
  Number(number(rows.reduce((all, row) => all + row[key], 0) / unit));

function quota({ over_quota: over, runs }: PathUsage): string {
  if (over === null) return "none";
  if (over === 0) return "kept";
  return runs === 1 ? "exceeded" : `exceeded in ${over} of ${runs} runs`;
}
