// Differences with their intervals: a row for each contender, a line at no difference, a band for differences that do not matter.

import { type Any, base, mark, nameWidth, rowAxes, rowGrid, whisker, type Write, xAxis } from "./chart";
import { tip } from "./dom";
import type { Panel, Scene } from "./figure";

export interface Estimate {
  /** The contender, whose colour it has. */
  contender: string;
  label: string;
  value: number;
  interval: [number, number] | null;
  /** False where the interval leaves open on which side the value is: then the mark is hollow. */
  certain: boolean;
  lines: [string, string][];
}

export interface Forest {
  title: string;
  axis: string;
  estimates: Estimate[];
  write: Write;
  /** The value of no difference. */
  line: number | null;
  /** Half the width of the band around the line. */
  band: number;
}

export function forest(data: Forest): Panel {
  const shown = (scene: Scene) => data.estimates.filter((estimate) => !scene.hidden.has(estimate.contender));
  return {
    title: data.title,
    label: `${data.title} ${data.axis}: ` +
      data.estimates.map((estimate) => `${estimate.label} ${data.write(estimate.value)}`).join(", "),
    height: (scene) => 70 + 34 * Math.max(1, shown(scene).length),
    draw(scene, width, zoom): Any {
      const rows = shown(scene);
      const labels = nameWidth(rows.map((row) => row.label), width);
      const ends = rows.flatMap((row) => [row.value, ...(row.interval ?? [])]);
      if (data.line !== null) ends.push(data.line - data.band, data.line + data.band);
      const [low, high] = [Math.min(...ends), Math.max(...ends)];
      const margin = (high - low) * 0.06 || 1;
      const [categories, places] = rowAxes(scene.theme, rows.map((row) => row.label), labels);
      const item = (_: Any, api: Any): Any => {
        const row = rows[api.value(1)];
        if (!row) return null;
        const at = (value: number) => api.coord([value, api.value(1)]);
        const colour = scene.colour(row.contender);
        const symbol = scene.styles.get(row.contender)?.symbol ?? "circle";
        const line = row.interval ? [whisker(at(row.interval[0]), at(row.interval[1]), colour, 6)] : [];
        return { type: "group", children: [...line, mark(symbol, at(row.value), 11, colour, row.certain ? colour : scene.theme.page)] };
      };
      return {
        ...base(scene.theme),
        grid: rowGrid(labels),
        xAxis: xAxis(scene.theme, data.axis, zoom, data.write, { min: zoom?.[0] ?? low - margin, max: zoom?.[1] ?? high + margin,
          axisLabel: { showMinLabel: false, showMaxLabel: false } }),
        yAxis: [categories, places],
        series: [
          {
            type: "custom",
            yAxisIndex: 1,
            clip: true,
            renderItem: item,
            encode: { x: 0, y: 1 },
            data: rows.map((row, at) => [row.value, at]),
            tooltip: { formatter: (found: Any) => {
              const row = rows[found.dataIndex];
              return row ? tip(row.label, row.lines) : "";
            } },
            markLine: data.line === null ? undefined : {
              silent: true, symbol: "none", label: { show: false },
              lineStyle: { color: scene.theme.text, type: "solid", width: 1 },
              data: [{ xAxis: data.line }],
            },
            markArea: data.line === null || data.band === 0 ? undefined : {
              silent: true, itemStyle: { color: scene.theme.soft },
              data: [[{ xAxis: data.line - data.band }, { xAxis: data.line + data.band }]],
            },
          },
        ],
      };
    },
  };
}
