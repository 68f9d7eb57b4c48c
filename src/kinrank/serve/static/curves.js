// Many queries: average precision, distances, and what a threshold would let through.

import { byId, percent, shape, title } from "./draw.js";

function scatter(queries, pick) {
  const axis = [shape("path", { class: "axis", d: "M0 0V100H100M0 100L100 0" }),
    shape("text", { x: 50, y: 109, "text-anchor": "middle" }, "before, per cent"),
    shape("text", { x: -4, y: 50, "text-anchor": "middle", transform: "rotate(-90 -4 50)" },
      "after, per cent")];
  const points = queries.map((one) => {
    const lost = one.after < one.before;
    const words = `${one.id}: ${percent(one.before)} before, ${percent(one.after)} after`;
    const point = shape("circle", { cx: 100 * one.before, cy: 100 - 100 * one.after, r: 1.6,
      class: lost ? "lost" : "", tabindex: -1, role: "button", "aria-label": words }, title(words));
    point.addEventListener("click", () => pick(one.id));
    point.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Enter") pick(one.id);
      if (step) points[(points.indexOf(point) + step + points.length) % points.length].focus();
    });
    return point;
  });
  points[0]?.setAttribute("tabindex", 0); // one stop for Tab; arrows go on from there
  byId("scatter").replaceChildren(...axis, ...points);
  const gained = queries.filter((one) => one.after > one.before).length;
  const lost = queries.filter((one) => one.after < one.before).length;
  byId("scatter-words").textContent =
    `Above the line: gained (${gained} queries). Below: lost (${lost}). Choose a point to see it.`;
}

function histogram(id, counts, words, cut, labelled) {
  const bins = counts.right.length;
  const share = (values) => {
    const total = values.reduce((a, b) => a + b, 0) || 1;
    return values.map((value) => value / total);
  };
  const parts = { right: share(counts.right), wrong: share(counts.wrong) };
  const top = Math.max(...parts.right, ...parts.wrong, 1e-9);
  const bars = (labelled ? ["wrong", "right"] : ["wrong"]).flatMap((kind) => parts[kind].map((value, at) =>
    shape("rect", { class: labelled ? `bar-${kind}` : "bar-all", x: (200 * at) / bins + (kind === "right" ? 2.4 : 0.2),
      y: 50 - (46 * value) / top, width: labelled ? 2.2 : 4.4, height: (46 * value) / top })));
  byId(id).replaceChildren(
    ...bars, shape("path", { class: "axis", d: "M0 50H200" }),
    shape("text", { x: 0, y: 60 }, "0"), shape("text", { x: 200, y: 60, "text-anchor": "end" }, "1"),
    shape("text", { x: 100, y: 60, "text-anchor": "middle" }, words),
    ...(cut === null ? [] : [shape("line", { class: "cut", x1: 200 * cut, x2: 200 * cut, y1: 2, y2: 50 })]),
  );
}

export function showCurves(answer, pick) {
  byId("precision").hidden = !answer.queries.length;
  if (answer.queries.length) scatter(answer.queries, pick);
  byId("histogram-words").textContent = answer.labelled
    ? "Green: rows of the same label, red: all others; each as a share of its kind."
    : "All rows. With labels (--labels) right and wrong ones would be told apart.";
  const rates = answer.calibration;
  const update = () => {
    const at = Number(byId("threshold").value);
    const cut = rates.thresholds[at];
    byId("threshold-value").textContent = cut.toFixed(2);
    histogram("before", answer.histograms.before, "plain distance", null, answer.labelled);
    histogram("after", answer.histograms.after, "after re-ranking", cut, answer.labelled);
    const words = [`Expected false-match rate of pairs ${(100 * rates.pair_false_match_rate[at]).toPrecision(3)} %,`,
      `${rates.false_matches[at].toFixed(1)} wrong rows for each query.`];
    if (rates.recall) {
      words.push(`Of the right rows ${percent(rates.recall[at])} are found;`,
        `${percent(rates.precision[at])} of what is found is right.`);
    }
    byId("rates").textContent = words.join(" ");
  };
  byId("threshold").oninput = update;
  update();
  const count = (number) => number.toLocaleString("en");
  byId("curves-state").textContent = answer.asked === answer.rows
    ? `All ${count(answer.rows)} rows were asked, each without itself.`
    : `${count(answer.asked)} of ${count(answer.rows)} rows were asked, evenly spread, each without ` +
      "itself: what is shown is of these.";
  byId("charts").hidden = false;
}
