// Stacked bars: a bar for each contender, divided into parts.

import { type Any, base, nameWidth, rowAxes, rowGrid, xAxis } from "./chart";
import { type Cell, el, tip } from "./dom";
import type { Figure, Scene } from "./figure";
import type { Theme } from "./theme";

export interface Stack {
  id: string;
  title: string;
  note: string;
  axis: string;
  conditions: string[];
  parts: string[];
  colour(at: number, theme: Theme): string;
  rows: { condition: string; contender: string; label: string; values: number[]; tips: string[] }[];
  write(value: number): string;
}

export function stackedBars(stack: Stack): Figure {
  const title = (condition: string) => (stack.conditions.length > 1 ? condition : "");
  return {
    id: stack.id,
    title: stack.title,
    note: stack.note,
    panels: () => stack.conditions.map((condition) => {
      const rows = (scene: Scene) => stack.rows.filter((row) => row.condition === condition && !scene.hidden.has(row.contender));
      return {
        title: title(condition),
        label: `${stack.title} ${condition}: ` + stack.rows.filter((row) => row.condition === condition).map((row) =>
          `${row.label} ${stack.parts.map((part, at) => `${part} ${stack.write(row.values[at] ?? 0)}`).join(" ")}`).join("; "),
        height: (scene) => 70 + 36 * Math.max(1, rows(scene).length),
        draw: (scene, width, zoom): Any => {
          const shown = rows(scene);
          const labels = nameWidth(shown.map((row) => row.label), width);
          return {
            ...base(scene.theme),
            grid: rowGrid(labels),
            xAxis: xAxis(scene.theme, stack.axis, zoom, (value) => String(+value.toPrecision(6)), zoom ? {} : { min: 0 }),
            yAxis: [rowAxes(scene.theme, shown.map((row) => row.label), labels)[0]],
            series: stack.parts.map((part, at) => ({
              type: "bar",
              stack: "all",
              clip: true,
              barWidth: 20,
              itemStyle: { color: stack.colour(at, scene.theme), borderColor: scene.theme.page, borderWidth: 1 },
              data: shown.map((row) => row.values[at] ?? 0),
              tooltip: { formatter: (found: Any) => {
                const row = shown[found.dataIndex];
                return row ? tip(row.label, [[part, `${stack.write(row.values[at] ?? 0)}, ${row.tips[at]}`]]) : "";
              } },
            })),
          };
        },
      };
    }),
    key: (scene) => el("div", { class: "key" }, ...stack.parts.map((part, at) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = stack.colour(at, scene.theme);
      return el("span", {}, swatch, el("bdi", {}, part));
    })),
    table: () => ({
      columns: ["condition", "contender", "part", "value"],
      rows: stack.rows.flatMap((row) => stack.parts.map((part, at): Cell[] => [row.condition, row.label, part, row.values[at] ?? null])),
    }),
  };
}
