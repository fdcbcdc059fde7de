// Figures that stay in their places while their data change.

import { el } from "../../report/src/dom";
import { Drawn, type Figure, type Scene } from "../../report/src/figure";

/** A figure that shows the newest of the figures with its id. */
class Live implements Figure {
  constructor(private figure: Figure) {}
  get id(): string { return this.figure.id; }
  get title(): string { return this.figure.title; }
  get note(): string { return this.figure.note; }
  get two(): boolean { return this.figure.two ?? false; }
  set(figure: Figure): void { this.figure = figure; }
  panels() { return this.figure.panels(); }
  key(scene: Scene) { return this.figure.key?.(scene) ?? null; }
  table() { return this.figure.table(); }
}

/** A place for figures. */
export class Figures {
  readonly element = el("div", { class: "live" });
  private readonly shown = new Map<string, { live: Live; drawn: Drawn }>();

  constructor(private readonly scene: Scene) {}

  show(figures: Figure[]): void {
    const wanted = new Set(figures.map((figure) => figure.id));
    for (const [id, { drawn }] of this.shown) {
      if (wanted.has(id)) continue;
      drawn.element.remove();
      this.shown.delete(id);
    }
    for (const figure of figures) {
      const known = this.shown.get(figure.id);
      if (known) {
        known.live.set(figure);
        known.drawn.rebuild();
        continue;
      }
      const live = new Live(figure);
      const drawn = new Drawn(live, this.scene);
      this.shown.set(figure.id, { live, drawn });
      this.element.append(drawn.element);
    }
  }

  redraw(): void {
    for (const { drawn } of this.shown.values()) drawn.redraw(false);
  }
}
