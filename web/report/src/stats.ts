// Order statistics of what is drawn. Means and intervals are never computed here: they come from the comparison.

/** The finite values, in order. */
export function sorted(values: ArrayLike<number | null>): Float64Array {
  const kept = new Float64Array(values.length);
  let length = 0;
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at];
    if (value !== null && value !== undefined && Number.isFinite(value)) kept[length++] = value;
  }
  return kept.slice(0, length).sort();
}

/** The quantile by linear interpolation between order statistics, as in the tables of the command. */
export function quantile(ordered: ArrayLike<number>, share: number): number {
  const place = share * (ordered.length - 1);
  const below = Math.floor(place);
  const low = ordered[below] ?? NaN;
  const high = ordered[Math.min(below + 1, ordered.length - 1)] ?? low;
  return low + (high - low) * (place - below);
}

export interface Box { low: number; q1: number; median: number; q3: number; high: number }

/** Quartiles, and whiskers to the last value within 1.5 interquartile ranges. */
export function box(ordered: Float64Array): Box {
  const [q1, median, q3] = [quantile(ordered, 0.25), quantile(ordered, 0.5), quantile(ordered, 0.75)];
  const reach = 1.5 * (q3 - q1);
  const low = ordered[firstAtLeast(ordered, q1 - reach)] ?? q1;
  const high = ordered[firstAbove(ordered, q3 + reach) - 1] ?? q3;
  return { low: Math.min(low, q1), q1, median, q3, high: Math.max(high, q3) };
}

export function firstAtLeast(ordered: ArrayLike<number>, value: number): number {
  let [low, high] = [0, ordered.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ordered[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function firstAbove(ordered: ArrayLike<number>, value: number): number {
  let [low, high] = [0, ordered.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ordered[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The steps of the empirical distribution: value and share at most that value. At most about `most` of them, none of the
 * tails' left out: the ends and the last `most / 4` values are exact. */
export function distribution(ordered: Float64Array, most: number): [number, number][] {
  const n = ordered.length;
  const steps: [number, number][] = n ? [[ordered[0] as number, 0]] : [];
  const tail = Math.floor(most / 4);
  const stride = n <= most ? 1 : Math.ceil(n / (most - tail));
  for (let at = 0; at < n; at += at + tail >= n ? 1 : Math.min(stride, n - tail - at)) {
    steps.push([ordered[at] as number, (at + 1) / n]);
  }
  return steps;
}

export interface Bin { from: number; to: number; count: number }

/** Equal bins over the whole range, empty ones left out. */
export function bins(ordered: Float64Array, number: number): Bin[] {
  const [low, high] = [ordered[0] ?? 0, ordered[ordered.length - 1] ?? 0];
  const width = (high - low) / number || 1;
  const found: Bin[] = [];
  let begin = 0;
  for (let at = 1; at <= number && begin < ordered.length; at += 1) {
    const to = at === number ? high : low + at * width;
    const end = at === number ? ordered.length : firstAtLeast(ordered, to);
    if (end > begin) found.push({ from: low + (at - 1) * width, to, count: end - begin });
    begin = end;
  }
  return found;
}

/** A number from -0.5 to 0.5 for each place, the same at every drawing. */
export function jitter(at: number): number {
  return ((at * 0.6180339887498949) % 1) - 0.5;
}

export function median(values: number[]): number | null {
  const ordered = sorted(values);
  return ordered.length ? quantile(ordered, 0.5) : null;
}
