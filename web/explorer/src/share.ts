// The state as an address, a command, a scenario file and Python.

import { button, el, save } from "../../report/src/dom";
import type { Traces } from "./form";
import { type State, toCommand, toFragment, toPython, toToml } from "./state";

const FORMS: [string, string, (state: State) => string][] = [
  ["Command", "sh", toCommand],
  ["Scenario file", "toml", (state) => toToml(state)],
  ["Python", "py", toPython],
  ["Address", "txt", (state) => `${location.href.split("#")[0]}#${toFragment(state)}`],
];

export class Share {
  readonly element: HTMLElement;
  private readonly text = el("textarea", { readonly: "", spellcheck: "false", "aria-label": "The experiment as text" });
  private readonly note = el("span", { class: "dim", role: "status" });
  private form = 0;
  private state: State | null = null;

  constructor(private readonly traces: Traces) {
    const group = el("div", { class: "bar", role: "group", "aria-label": "Form of the text" });
    const buttons = FORMS.map(([name], at) => button(name, `Show the experiment as: ${name}`, () => {
      this.form = at;
      buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === at)));
      this.write();
    }));
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === 0)));
    group.append(...buttons);
    const copy = button("Copy", "Copy the text", () => void this.copy());
    const keep = button("Save", "Save the text as a file", () => save(`explorer.${FORMS[this.form]?.[1]}`, "text/plain", this.text.value));
    this.element = el("section", { class: "figure share", id: "share", "aria-label": "Take it with you" }, el("h3", {}, "Take it with you"),
      el("p", { class: "dim" }, "The command, the file and Python give the numbers above to the last digit. The address of this page has the same state."),
      group, this.text, el("div", { class: "bar" }, copy, keep, this.note));
  }

  show(state: State): void {
    this.state = state;
    this.write();
  }

  private write(): void {
    if (!this.state) return;
    this.text.value = FORMS[this.form]?.[2](this.state) ?? "";
    const traces = this.state.paths.map((path) => path.trace).filter((name) => this.traces.has(name));
    this.note.textContent = traces.length ? `Needs the file ${traces.join(", ")} in the same directory; an address cannot have it.` : "";
  }

  private async copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(this.text.value);
    } catch {
      // A page from disk may have no clipboard.
      this.text.select();
      document.execCommand("copy");
    }
    this.note.textContent = "Copied.";
  }
}
