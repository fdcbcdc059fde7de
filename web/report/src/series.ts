// Long series: unpacked from the page, and thinned out to what a chart of some width can show.

/** Unpacks a column: base 64 of differences as LEB128 in zigzag form. Offsets and times are below 2^53. */
export function unpack(packed: string): Float64Array {
  const text = atob(packed);
  let rows = 0;
  for (let at = 0; at < text.length; at += 1) rows += text.charCodeAt(at) < 0x80 ? 1 : 0;
  const values = new Float64Array(rows);
  let [row, last, zigzag, scale] = [0, 0, 0, 1];
  for (let at = 0; at < text.length; at += 1) {
    const byte = text.charCodeAt(at);
    zigzag += (byte & 0x7f) * scale;
    scale *= 128;
    if (byte >= 0x80) continue;
    last += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
    values[row++] = last;
    [zigzag, scale] = [0, 1];
  }
  return values;
}

/** Columns are unpacked when they are first drawn. */
export class Column {
  private unpacked: Float64Array | null = null;
  constructor(private readonly packed: string) {}
  get values(): Float64Array {
    this.unpacked ??= unpack(this.packed);
    return this.unpacked;
  }
}

/** The place of the last value that is at most `value`, or -1; `ordered` ascends. */
export function lastAtMost(ordered: Float64Array, value: number): number {
  let [low, high] = [0, ordered.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ordered[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The points of a step function between two times: in each of `columns` parts of the view the first value, the minimum, the
 * maximum and the last one. Values below 0 are missing. */
export function steps(t: Float64Array, values: Float64Array, from: number, to: number, columns: number): [number, number | null][] {
  const points: [number, number | null][] = [];
  const at = (row: number): [number, number | null] => {
    const value = values[row] as number;
    return [t[row] as number, value < 0 ? null : value];
  };
  const begin = Math.max(0, lastAtMost(t, from));
  const end = Math.min(t.length, lastAtMost(t, to) + 2);
  const width = (to - from) / columns || 1;
  for (let row = begin; row < end;) {
    const limit = from + (Math.floor(((t[row] as number) - from) / width) + 1) * width;
    let [low, high, last] = [row, row, row];
    while (last + 1 < end && (t[last + 1] as number) < limit) {
      last += 1;
      if ((values[last] as number) < (values[low] as number)) low = last;
      if ((values[last] as number) > (values[high] as number)) high = last;
    }
    for (const each of new Set([row, ...(low < high ? [low, high] : [high, low]), last])) points.push(at(each));
    row = last + 1;
  }
  return points;
}

/** Vertical lines from `low` to `high` at `t`, with the number of segments in each. */
export interface Bars { t: number[]; low: number[]; high: number[]; count: number }

/** The segments of a kind between two times. Those in the same of `columns` parts of the view, with less than `gap` between them,
 * are one line. */
export function bars(
  t: Float64Array,
  low: Float64Array,
  high: Float64Array,
  is: (row: number) => boolean,
  [from, to]: [number, number],
  columns: number,
  gap: number,
): Bars {
  const found: Bars = { t: [], low: [], high: [], count: 0 };
  const width = (to - from) / columns || 1;
  const end = lastAtMost(t, to) + 1;
  let [column, first] = [-1, 0];
  for (let row = lastAtMost(t, from - Number.EPSILON * Math.abs(from)) + 1; row < end; row += 1) {
    if (!is(row)) continue;
    found.count += 1;
    const here = Math.floor(((t[row] as number) - from) / width);
    const [bottom, top] = [low[row] as number, high[row] as number];
    if (here !== column) [column, first] = [here, found.t.length];
    let merged = false;
    for (let bar = found.t.length - 1; bar >= first && bar >= found.t.length - 8; bar -= 1) {
      if (bottom <= (found.high[bar] as number) + gap && top >= (found.low[bar] as number) - gap) {
        found.low[bar] = Math.min(found.low[bar] as number, bottom);
        found.high[bar] = Math.max(found.high[bar] as number, top);
        merged = true;
        break;
      }
    }
    if (merged) continue;
    found.t.push(t[row] as number);
    found.low.push(bottom);
    found.high.push(top);
  }
  return found;
}
