// Controls with a slider and a field for the exact number. Both are ordinary inputs, so the keyboard and screen readers have them.

import { el } from "../../report/src/dom";
import { numberIn } from "./state";

/** The steps of a slider between two bounds: ten a decade, and 0 if the least is 0. */
export function steps(least: number, most: number, first = least): number[] {
  const mantissas = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
  const found = least === 0 ? [0] : [];
  for (let exponent = Math.floor(Math.log10(first)); 10 ** exponent <= most; exponent += 1) {
    for (const mantissa of mantissas) {
      const value = +(mantissa * 10 ** exponent).toPrecision(3);
      if (value >= first && value <= most) found.push(value);
    }
  }
  return found;
}

export interface Slider {
  element: HTMLElement;
  set(value: number): void;
}

let made = 0;

export interface Scale {
  label: string;
  unit: string;
  steps: number[];
  /** The least value that is not 0, if 0 is one with another meaning. */
  least?: number;
  /** How a value is read out, if not as the number with its unit. */
  write?(value: number): string;
}

/** A slider over steps with a field for any number between the bounds of the steps. */
export function slider(scale: Scale, value: number, change: (value: number) => void): Slider {
  const id = `control-${(made += 1)}`;
  const write = scale.write ?? ((value: number) => `${value} ${scale.unit}`);
  const [least, most] = [scale.steps[0] as number, scale.steps[scale.steps.length - 1] as number];
  const range = el("input", { type: "range", id, min: "0", max: String(scale.steps.length - 1), step: "1" });
  const field = el("input", { type: "number", min: String(least), max: String(most), step: "any", "aria-label": `${scale.label}, ${scale.unit}` });
  const said = el("span", { class: "said" });
  const nearest = (value: number): number => {
    let best = 0;
    scale.steps.forEach((step, at) => {
      if (Math.abs(step - value) < Math.abs((scale.steps[best] as number) - value)) best = at;
    });
    return best;
  };
  const show = (value: number, isTyped = false) => {
    if (!isTyped) field.value = String(value);
    range.value = String(nearest(value));
    const text = write(value);
    range.setAttribute("aria-valuetext", text);
    said.textContent = scale.write ? text : scale.unit;
  };
  range.addEventListener("input", () => {
    const value = scale.steps[Number(range.value)] as number;
    show(value);
    change(value);
  });
  const typed = (isDone: boolean) => {
    const value = Number(field.value);
    const fits = numberIn(field.value, [least, most], NaN, scale.least);
    const isValid = Math.abs(fits - value) < 1e-6;
    field.setAttribute("aria-invalid", String(!isValid));
    field.title = isValid ? "" : `${scale.least ? "0, or " : ""}from ${scale.least ?? least} to ${most} ${scale.unit}`;
    if (isValid) {
      show(fits, !isDone);
      change(fits);
    }
  };
  field.addEventListener("input", () => typed(false));
  field.addEventListener("change", () => typed(true));
  show(value);
  const element = el("div", { class: "slider" }, el("label", { for: id }, scale.label), range, field, said);
  return { element, set: (value) => show(value) };
}

/** A choice of named values. */
export function select(label: string, options: [string, string][], value: string, change: (value: string) => void): HTMLElement {
  const box = el("select");
  for (const [key, text] of options) box.append(el("option", { value: key }, text));
  box.value = value;
  box.addEventListener("change", () => change(box.value));
  return el("label", { class: "choice" }, el("span", {}, label), box);
}
