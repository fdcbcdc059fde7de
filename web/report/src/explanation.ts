// The figure of an explanation: the time of a flow, divided by causes.

import type { Cause, Explanation } from "./results";
import type { Figure } from "./figure";
import { pathName, percent, seconds } from "./format";
import { stackedBars } from "./stacked";
import { causeColour } from "./theme";

/** The least share in percent of a cause in the key; the figure cannot show less. */
const LEAST_SHARE = 0.05;

export function explanationFigures(explanation: Explanation, prefix: string): Figure[] {
  const known = explanation.rows.filter((row) => row.mean_s !== null);
  const causes = [...new Set(known.flatMap((row) => row.parts.filter((part) => part.share_pct >= LEAST_SHARE).map((part) => part.cause)))];
  const order = explanation.rows[0]?.parts.map((part) => part.cause) ?? [];
  causes.sort((a, b) => order.indexOf(a) - order.indexOf(b));
  if (!causes.length) return [];
  // One unit on the axis for all contenders.
  const most = Math.max(...known.map((row) => row.mean_s ?? 0));
  const [unit, scale] = most >= 1 ? ["s", 1] : ["ms", 1e3];
  const part = (row: Explanation["rows"][number], cause: string) => row.parts.find((part) => part.cause === cause);
  return [stackedBars({
    id: `${prefix}-causes`,
    title: "Where the time of a flow went",
    note: `The mean time of a flow, divided by the causes of its waits along the chain that ends with its last byte` +
      `${explanation.flow === null ? "" : `, of flow ${explanation.flow} of each run`}. The parts add up to the whole.`,
    axis: `mean time of a flow, ${unit}`,
    conditions: [...new Set(known.map((row) => row.condition))],
    parts: causes.map((cause) => cause.replaceAll("_", " ")),
    colour: (at, theme) => causeColour(order.indexOf(causes[at] as Cause), theme),
    rows: known.map((row) => ({
      condition: row.condition,
      contender: row.scheduler,
      label: row.path === null ? row.scheduler : `${row.scheduler} (${pathName(row.path)})`,
      values: causes.map((cause) => (part(row, cause)?.mean_s ?? 0) * scale),
      tips: causes.map((cause) => percent(part(row, cause)?.share_pct)),
    })),
    write: (value) => seconds(value / scale),
  })];
}
