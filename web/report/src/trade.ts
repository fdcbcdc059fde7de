// What each contender gains and loses in every class of traffic.

import type { Cell } from "./dom";
import type { Figure } from "./figure";
import { forest } from "./forest";
import { percentTick } from "./format";
import type { Comparison, Row } from "./results";
import { ends, estimate, label, usesContender } from "./rows";
import { classes, words } from "./traffic";

/** True where the measure is a goodput: more is better. */
const isGoodput = (result: Comparison, row: Row): boolean =>
  result.verdicts.some((verdict) => verdict.traffic === row.traffic && verdict.measure === "goodput");

/** The differences of all classes in one figure; none without a reference. */
export function trade(result: Comparison, prefix: string): Figure | null {
  const { reference, min_effect_pct: band } = result;
  const compared = result.rows.filter((row) => row.scheduler !== reference && row.vs_reference_pct?.mean != null && !isGoodput(result, row));
  const shown = classes(compared);
  if (reference === null || shown.length < 2) return null;
  const goodput = result.rows.some((row) => isGoodput(result, row)) ? " Classes by goodput, of which more is better, are in the table only." : "";
  const measure = (row: Row) => (isGoodput(result, row) ? "goodput" : words(row.traffic ?? null, row.kind).time);
  const contenders = [...new Set(compared.map((row) => row.scheduler))];
  return {
    id: `${prefix}-classes`,
    title: `All classes of traffic: difference from ${reference}`,
    note: `Each class by its own measure, grouped by contender: a contender may be better for one class and worse for another. Left of the ` +
      `line is better than ${reference}. Marks and bars as in the figures of the classes below.${goodput}`,
    panels: () => result.conditions.map((condition) => {
      const rows = contenders.flatMap((contender) => compared.filter((row) => row.scheduler === contender && row.condition === condition.name));
      return rows.length === 0 ? null : forest({
        title: result.conditions.length > 1 ? condition.name : "",
        axis: `against ${reference}, %`,
        estimates: rows.map((row) => estimate(row.scheduler, `${row.scheduler}, ${row.traffic}`, row.vs_reference_pct, band)),
        write: percentTick,
        line: 0,
        band,
      });
    }).filter((panel) => panel !== null),
    table: () => ({
      columns: ["class", "condition", "contender", "by", "uses the contender", "mean s", "goodput bit/s", "difference %", "low %", "high %"],
      rows: result.rows.map((row): Cell[] => [row.traffic ?? "", row.condition, label(row), measure(row), usesContender(row) ? "yes" : "no",
        row.fct_s.mean, row.goodput_bps, ...ends(row.vs_reference_pct)]),
    }),
  };
}
