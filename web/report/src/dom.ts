// Elements. Text from the data becomes text nodes, never markup.

type Child = Node | string | null;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

/** A name from the data within a sentence, whatever its direction of writing. */
export const name = (text: string): HTMLElement => el("bdi", {}, text);

export function button(text: string, title: string, action: () => void): HTMLButtonElement {
  const element = el("button", { type: "button", title }, text);
  element.addEventListener("click", action);
  return element;
}

export function choice(label: string, options: string[], selected: number, action: (at: number) => void): HTMLElement {
  const select = el("select");
  options.forEach((option, at) => select.append(el("option", { value: String(at) }, option)));
  select.selectedIndex = selected;
  select.addEventListener("change", () => action(select.selectedIndex));
  return el("label", {}, label, select);
}

export type Cell = string | number | null;
export interface Table { columns: string[]; rows: Cell[][] }

/** Rows beyond this are in the file of "Save CSV" only: a browser lays out a table much more slowly than a figure. */
const MOST_ROWS = 1000;

export function table(data: Table): HTMLElement {
  const isText = data.columns.map((_, at) => data.rows.some((row) => typeof row[at] === "string"));
  const cell = (tag: "td" | "th", value: Cell, at: number) => {
    const text = value === null ? "" : String(value);
    return el(tag, { ...(isText[at] ? { class: "text" } : {}), ...(text.length > 30 ? { title: text } : {}) }, text);
  };
  const head = el("tr", {}, ...data.columns.map((column, at) => cell("th", column, at)));
  for (const th of head.children) th.setAttribute("scope", "col");
  const body = data.rows.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((value, at) => cell("td", value, at))));
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of the figure" });
  scroll.append(el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
  if (data.rows.length <= MOST_ROWS) return scroll;
  const note = `The first ${MOST_ROWS} of ${data.rows.length} rows; "Save CSV" writes all.`;
  return el("div", {}, scroll, el("p", { class: "dim" }, note));
}

export function csv(data: Table): string {
  const quoted = (cell: Cell) => {
    let text = cell === null ? "" : String(cell);
    // A spreadsheet would run a name that begins like a formula.
    if (typeof cell === "string" && /^'*[=+\-@\t\r]/.test(cell) && !/^[-+]?[\d.]+(e[-+]?\d+)?$/i.test(cell)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [data.columns, ...data.rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
}

export function save(file: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: file });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** What a tooltip shows. */
export function tip(title: string, lines: [string, string][]): HTMLElement {
  const rows = lines.map(([key, value]) => el("tr", {}, el("td", { class: "text" }, key), el("td", { class: "text" }, value)));
  return el("div", { class: "tip" }, el("b", {}, title), el("table", {}, ...rows));
}
