// The parts of ECharts that the figures use, and what they have in common.

import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { GridComponent, MarkAreaComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";
import type { Theme } from "./theme";

echarts.use([
  BarChart,
  CustomChart,
  LineChart,
  ScatterChart,
  GridComponent,
  MarkAreaComponent,
  MarkLineComponent,
  TooltipComponent,
  CanvasRenderer,
  SVGRenderer,
]);

export { echarts };
// ECharts' own types of options do not describe custom series well enough to be of help here.
export type Any = any;

export const FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

/** The width for names beside a chart. */
export function nameWidth(names: string[], width: number): number {
  const longest = Math.max(...names.map((name) => name.length), 4);
  return Math.round(Math.min(longest * 7.2 + 8, width * 0.4, 220));
}

const axis = (theme: Theme): Any => ({
  axisLine: { onZero: false, lineStyle: { color: theme.dim } },
  axisTick: { lineStyle: { color: theme.dim } },
  axisLabel: { color: theme.text, fontSize: 12, hideOverlap: true },
  splitLine: { show: true, lineStyle: { color: theme.line } },
  nameTextStyle: { color: theme.dim, fontSize: 12 },
});

/** Writes the number at a tick; `step` is about the distance between ticks. */
export type Write = (value: number, step?: number) => string;

/** The ends of an axis, and a formatter with digits for the distance of its ticks: from the ends if they are given, and otherwise
 * from those of the data, which the chart passes to these functions. */
function fitted(write: Write, min: number | undefined, max: number | undefined): Any {
  const data = { low: 0, high: 0 };
  return {
    min: min ?? ((found: { min: number }) => {
      data.low = found.min;
      return null;
    }),
    max: max ?? ((found: { max: number }) => {
      data.high = found.max;
      return null;
    }),
    formatter: (value: number) => {
      const span = (max ?? data.high) - (min ?? data.low);
      return write(value, span > 0 && Number.isFinite(span) ? span / TICKS : 0);
    },
  };
}

/** The number of ticks that the charts aim at. */
const TICKS = 5;

/** A horizontal axis of numbers with its name below. */
export function xAxis(theme: Theme, name: string, range: [number, number] | null, write: Write, more: Any = {}): Any {
  const base = axis(theme);
  const { min, max, formatter } = fitted(write, more.min ?? range?.[0], more.max ?? range?.[1]);
  return {
    type: "value",
    scale: true,
    name,
    nameLocation: "middle",
    nameGap: 30,
    ...base,
    ...more,
    min,
    max,
    // The ends of a zoomed range are no round numbers.
    axisLabel: { ...base.axisLabel, formatter, showMinLabel: range === null, showMaxLabel: range === null, ...more.axisLabel },
  };
}

export function yAxis(theme: Theme, name: string, write: Write, more: Any = {}): Any {
  const base = axis(theme);
  const { min, max, formatter } = fitted(write, more.min, more.max);
  return {
    type: "value",
    scale: true,
    name,
    nameLocation: "end",
    ...base,
    ...more,
    min,
    max,
    nameTextStyle: { ...base.nameTextStyle, align: "left", padding: [0, 0, 0, -40] },
    axisLabel: { ...base.axisLabel, formatter, ...more.axisLabel },
  };
}

/** A vertical axis with a row for each name, and another over the same rows on which places between rows are numbers. */
export function rowAxes(theme: Theme, names: string[], labels: number): Any[] {
  const base = axis(theme);
  return [
    {
      type: "category",
      data: names.map((_, at) => String(at)),
      inverse: true,
      ...base,
      axisTick: { show: false },
      splitLine: { show: false },
      axisLabel: {
        ...base.axisLabel,
        hideOverlap: false,
        interval: 0,
        width: labels,
        overflow: "truncate",
        formatter: (at: string) => names[Number(at)] ?? "",
      },
    },
    { type: "value", min: -0.5, max: names.length - 0.5, inverse: true, show: false },
  ];
}

/** Margins for a chart with rows. */
export const rowGrid = (labels: number): Any => ({ left: labels + 14, right: 24, top: 8, bottom: 48 });

export function base(theme: Theme): Any {
  return {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { fontFamily: FONT, color: theme.text },
    tooltip: {
      trigger: "item",
      confine: true,
      transitionDuration: 0,
      backgroundColor: theme.page,
      borderColor: theme.dim,
      textStyle: { color: theme.text, fontSize: 13 },
      extraCssText: "white-space:normal;max-width:26rem",
    },
  };
}

/** An interval with its mean, as a custom series item draws it: horizontal at the row, or vertical. */
export function whisker(from: number[], to: number[], colour: string, cap: number, width = 2): Any {
  const along = from[1] === to[1];
  const across = (point: number[]) => {
    const [x, y] = point as [number, number];
    return along ? { x1: x, y1: y - cap, x2: x, y2: y + cap } : { x1: x - cap, y1: y, x2: x + cap, y2: y };
  };
  const line = (shape: Any) => ({ type: "line", shape, style: { stroke: colour, lineWidth: width } });
  return {
    type: "group",
    children: [
      line({ x1: from[0], y1: from[1], x2: to[0], y2: to[1] }),
      line(across(from)),
      line(across(to)),
    ],
  };
}

/** A mark: filled, or hollow where the value says nothing for certain. */
export function mark(symbol: string, at: number[], size: number, colour: string, fill: string): Any {
  const [x, y] = at as [number, number];
  const style = { fill, stroke: colour, lineWidth: 2 };
  const h = size / 2;
  if (symbol === "circle") return { type: "circle", shape: { cx: x, cy: y, r: h }, style };
  if (symbol === "rect") return { type: "rect", shape: { x: x - h, y: y - h, width: size, height: size }, style };
  const points = symbol === "diamond"
    ? [[x, y - h * 1.2], [x + h * 1.2, y], [x, y + h * 1.2], [x - h * 1.2, y]]
    : [[x, y - h * 1.1], [x + h * 1.1, y + h * 0.9], [x - h * 1.1, y + h * 0.9]];
  return { type: "polygon", shape: { points }, style };
}
