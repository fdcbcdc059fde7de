// Numbers with their units, as the tables of the command write them.

/** Three significant digits, or all digits before the point. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  if (exponent < -4) return value.toExponential(2);
  return value.toFixed(Math.min(8, Math.max(0, 2 - exponent)));
}

function scaled(value: number, units: string[]): string {
  let at = 0;
  while (Math.abs(value) >= 999.5 && at + 1 < units.length) {
    value /= 1000;
    at += 1;
  }
  return `${digits(value)} ${units[at]}`;
}

export const NONE = "\u2013";
type Maybe = number | null | undefined;
const present = (value: Maybe): value is number => value !== null && value !== undefined && Number.isFinite(value);

export function seconds(value: Maybe): string {
  if (!present(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 0.9995 || size === 0) return `${digits(value)} s`;
  return size >= 0.9995e-3 ? `${digits(value * 1e3)} ms` : `${digits(value * 1e6)} \u00b5s`;
}

/** A time with all its digits, for hovering. */
export const exactly = (value: Maybe): string => (present(value) ? `${+(value * 1e3).toFixed(6)} ms` : NONE);
export const rate = (value: Maybe): string =>
  present(value) ? scaled(value, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]) : NONE;
export const bytes = (value: Maybe): string => (present(value) ? scaled(value, ["B", "KB", "MB", "GB", "TB"]) : NONE);
export const percent = (value: Maybe): string =>
  present(value) ? `${Math.abs(value) >= 99.95 ? value.toFixed(0) : value.toFixed(1)} %` : NONE;
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
