// Numbers with their units, as the tables of the command write them.

/** Three significant digits, or all digits before the point. With a `step` between values, as many digits as tell apart two that are
 * a step from each other. */
export function digits(value: number, step = 0): string {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  const places = Math.max(2 - exponent, decimals(step));
  if (exponent < -4) return value.toExponential(2);
  return value.toFixed(Math.min(8, Math.max(0, places)));
}

/** The digits after the point that a step between values needs. */
export const decimals = (step: number): number => (step > 0 ? Math.max(0, -Math.floor(Math.log10(step))) : 0);

function scaled(value: number, step: number, units: string[]): string {
  let at = 0;
  while (Math.abs(value) >= 999.5 && at + 1 < units.length) {
    value /= 1000;
    step /= 1000;
    at += 1;
  }
  return `${digits(value, step)} ${units[at]}`;
}

/** The name of a path in a sentence: one without a name of its own has a number. */
export const pathName = (name: string): string => (/^\d+$/.test(name) ? `path ${name}` : name);

export const NONE = "\u2013";
type Maybe = number | null | undefined;
const present = (value: Maybe): value is number => value !== null && value !== undefined && Number.isFinite(value);

export function seconds(value: Maybe, step = 0): string {
  if (!present(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 0.9995 || size === 0) return `${digits(value, step)} s`;
  return size >= 0.9995e-3 ? `${digits(value * 1e3, step * 1e3)} ms` : `${digits(value * 1e6, step * 1e6)} \u00b5s`;
}

/** A time with all its digits, for hovering. */
export const exactly = (value: Maybe): string => (present(value) ? `${+(value * 1e3).toFixed(6)} ms` : NONE);
export const rate = (value: Maybe, step = 0): string =>
  present(value) ? scaled(value, step, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]) : NONE;
export const bytes = (value: Maybe, step = 0): string => (present(value) ? scaled(value, step, ["B", "KB", "MB", "GB", "TB"]) : NONE);
export const percent = (value: Maybe): string =>
  present(value) ? `${Math.abs(value) >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %` : NONE;
/** A percentage on an axis that has the unit in its name. */
export const percentTick = (value: number, step = 0): string =>
  `${value < 0 ? "\u2212" : ""}${+Math.abs(value).toFixed(Math.max(2, decimals(step)))}`;
/** A number without a unit on an axis. */
export const plain = (value: number, step = 0): string => String(+value.toFixed(Math.max(3, decimals(step))));
export const signed = (value: Maybe): string =>
  present(value) ? `${value >= 0 ? "+" : "\u2212"}${percent(Math.abs(value))}` : NONE;
export const number = (value: Maybe): string => (present(value) ? digits(value) : NONE);
export const count = (value: number): string => value.toLocaleString("en-GB");

export function interval(ends: [number, number] | null | undefined, write: (value: number) => string): string {
  return ends ? `${write(ends[0])} to ${write(ends[1])}` : NONE;
}

/** "a, b and c" */
export function list(words: string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

/** A command line that a shell reads as these words. */
export function shell(words: string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}
