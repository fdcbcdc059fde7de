// The colours of the page for people with each kind of colour blindness, and the contrast of its texts.

import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { after, test } from "node:test";
import { place, source } from "./tools.mjs";

const { KNOWN, PATHS } = await source("../../report/src/palette.ts");
/** The colours of the stream, delivered and waiting, on white and on a dark page. */
const stream = [...readFileSync(new URL("../src/stage.ts", import.meta.url), "utf8").matchAll(/theme\.dark \? "(#\w{6})" : "(#\w{6})"/g)].map(([, dark, light]) => [light, dark]);
after(() => rmSync(place, { recursive: true, force: true }));

/** Linear RGB as it is seen: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1. */
const SIGHTS = {
  "full sight": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const linear = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));

/** CIE L*a*b* of a colour as it is seen. */
function lab(hex, sight) {
  const rgb = linear(hex);
  const [r, g, b] = sight.map((row) => Math.min(1, Math.max(0, row.reduce((sum, weight, at) => sum + weight * rgb[at], 0))));
  const [x, y, z] = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089]
    .map((part) => (part > 0.008856 ? Math.cbrt(part) : 7.787 * part + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const distance = (one, other, sight) => Math.hypot(...lab(one, sight).map((part, at) => part - lab(other, sight)[at]));

/** The pairs of a list. */
const pairs = (list) => list.flatMap((one, at) => list.slice(at + 1).map((other) => [one, other]));

test("colours of paths and of the stream differ for every sight, and contenders with similar colours have other shapes", () => {
  assert.equal(stream.length, 2);
  for (const [name, sight] of Object.entries(SIGHTS)) {
    for (const theme of [0, 1]) {
      for (const [one, other] of pairs(PATHS.slice(0, 4).map((pair) => pair[theme]))) assert.ok(distance(one, other, sight) >= 10, `${name}: ${one} ${other}`);
      const [delivered, waiting] = stream.map((pair) => pair[theme]);
      assert.ok(distance(delivered, waiting, sight) >= 50, name);
      for (const [one, other] of pairs(Object.values(KNOWN))) {
        const [a, b] = [one, other].map((style) => (theme ? style.dark : style.light));
        assert.ok(distance(a, b, sight) >= 20 || (one.symbol !== other.symbol && one.dash !== other.dash), `${name}: ${a} ${b}`);
      }
    }
  }
});

test("texts have a contrast of 4.5 on every background", () => {
  const style = readFileSync(new URL("../../report/src/style.css", import.meta.url), "utf8");
  const luminance = (hex) => linear(hex).reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const themes = [...style.matchAll(/:root[^{]*\{([^}]*)\}/g)].slice(0, 2).map(([, body]) => Object.fromEntries([...body.matchAll(/--([\w-]+): (#\w{6})/g)].map(([, name, hex]) => [name, hex])));
  assert.equal(themes.length, 2);
  for (const theme of themes) {
    for (const text of ["text", "dim", "accent", "warn"]) {
      for (const ground of ["page", "panel", "soft", ...(text === "warn" ? ["warn-soft"] : [])]) {
        const [dark, bright] = [theme[text], theme[ground]].map(luminance).sort((a, b) => a - b);
        const contrast = (bright + 0.05) / (dark + 0.05);
        assert.ok(contrast >= 4.5, `${text} on ${ground}: ${contrast.toFixed(2)}`);
      }
    }
  }
});
