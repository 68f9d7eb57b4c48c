// Two rankings side by side, and who moved.

import { thumbnail } from "./enlarge.js";
import { byId, called, make, percent, shape } from "./draw.js";

function move(result, rank, shown) {
  const other = result.other_rank;
  const by = other - rank;
  if (other > shown) return ["new", `+ from ${other}`, `rank ${other} in the other list`];
  if (by > 0) return ["up", `▲ ${by}`, `up by ${by}`];
  if (by < 0) return ["down", `▼ ${-by}`, `down by ${-by}`];
  return ["same", "=", "in the same place"];
}

function entry(result, rank, shown, side, images, pick, marks) {
  const known = result.right === null ? "" : result.right ? "right" : "wrong";
  const mark = { right: "✓ ", wrong: "✕ ", "": "" }[known];
  const [way, sign, words] = side === "right" ? move(result, rank, shown) : ["", "", ""];
  const distance = result.distance === null ? "behind the nearest" : result.distance.toFixed(4);
  const label = result.label ? ` · ${result.label}` : "";
  const button = make("button", {
    type: "button", class: "result", "data-id": result.id,
    "aria-label": `${rank}. ${called(result)}, distance ${distance}` +
      `${known ? `, ${known}` : ""}${words ? `, ${words}` : ""}. Make it the query.`,
  });
  button.append(
    make("span", {}, make("span", { class: "name", title: result.name }, `${rank}. ${result.name}`),
      make("span", { class: "facts" }, `${mark}${distance}${label}`)),
  );
  if (side === "right") button.append(make("span", { class: `move ${way}` }, sign));
  button.addEventListener("click", () => pick(result.id));
  const card = make("div", { class: `card ${known}` }, button);
  if (images) card.prepend(thumbnail(result, pick));
  const item = make("li", {}, card);
  if (side === "right") item.append(marks(result));
  for (const kind of ["mouseenter", "focusin", "mouseleave", "focusout"]) {
    item.addEventListener(kind, () => {
      const line = byId("lines").querySelector(`[data-id="${CSS.escape(result.id)}"]`);
      line?.classList.toggle("hot", kind === "mouseenter" || kind === "focusin");
    });
  }
  return item;
}

function heading(side, words) {
  const precision = side.average_precision === null ? "" : `AP ${percent(side.average_precision)} · `;
  const facts = `${precision}${side.scope} · ${side.milliseconds.toFixed(0)} ms`;
  return [words, make("span", {}, facts)];
}

export function showLists(answer, names, images, pick, marks) {
  for (const side of ["left", "right"]) {
    const { results } = answer[side];
    byId(`${side}-title`).replaceChildren(...heading(answer[side], names[side]));
    byId(`${side}-list`).replaceChildren(
      ...results.map((one, at) => entry(one, at + 1, results.length, side, images, pick, marks)),
    );
  }
  byId("lists").hidden = false;
  byId("empty").hidden = true;
  byId("legend").hidden = !answer.right.results.length;
  drawLines(answer);
}

export function drawLines(answer) {
  const lines = byId("lines");
  const rows = byId("right-list").children;
  if (rows.length === 0 || getComputedStyle(lines).display === "none") return;
  const step = rows.length > 1 ? rows[1].offsetTop - rows[0].offsetTop : rows[0].offsetHeight;
  const width = lines.clientWidth;
  const y = (rank) => step * (rank - 0.5);
  lines.setAttribute("height", step * rows.length);
  lines.replaceChildren(...answer.right.results.flatMap((result, at) => {
    const from = result.other_rank;
    if (from > answer.left.results.length) return [];
    const [a, b] = [y(from), y(at + 1)];
    const way = from > at + 1 ? "up" : "";
    return [shape("path", { class: way, "data-id": result.id,
      d: `M2 ${a}C${width / 2} ${a} ${width / 2} ${b} ${width - 2} ${b}` })];
  }));
}
