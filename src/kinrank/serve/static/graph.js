// The local cluster around the query: heavier rows nearer to the middle.

import { picture, pictureUrl } from "./api.js";
import { byId, called, make, shape } from "./draw.js";

const SIZE = 95;
const FACE = 64; // pixels of a picture in a dot

function layout(members) {
  const others = members.filter((one) => one.id !== null || one.name === "context");
  const top = Math.max(...others.map((one) => one.smoothed), 1e-9);
  const ordered = [...others].sort((a, b) => b.smoothed - a.smoothed);
  const places = new Map();
  ordered.forEach((one, at) => {
    const far = 22 + (SIZE - 22) * (1 - Math.sqrt(Math.max(one.smoothed, 0) / top));
    const angle = 2.399963 * at; // the golden angle keeps neighbours apart
    places.set(one, [far * Math.cos(angle), far * Math.sin(angle)]);
  });
  return { places, top };
}

// The picture of a row inside its dot; the dot alone where there is none.
function face(id, x, y, radius) {
  const image = shape("image", { class: "face", x: x - radius, y: y - radius, width: 2 * radius,
    height: 2 * radius, preserveAspectRatio: "xMidYMid slice" });
  image.addEventListener("error", () => image.remove());
  pictureUrl(id, FACE).then((url) => image.setAttribute("href", url), () => image.remove());
  return image;
}

function node(one, [x, y], top, shown, pick) {
  const least = shown ? 3 : 1; // so that there is something to see in it
  const size = (weight) => least + 5 * Math.sqrt(Math.max(weight, 0) / top);
  const asked = one.id === null && one.name !== "context";
  const known = one.right === null ? "" : one.right ? "right" : "wrong";
  const change = one.similarity > 0 ? 100 * (one.smoothed / one.similarity - 1) : 0;
  const words = `${called(one)}: weight ${one.similarity.toFixed(4)} before smoothing, ` +
    `${one.smoothed.toFixed(4)} after (${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(0)} %)` +
    (one.confident ? ", confident neighbour" : "");
  const group = shape("g", {
    class: `${asked ? "query" : known} ${one.confident ? "confident" : ""}`, tabindex: 0,
    role: "img", "aria-label": words, "data-id": one.id ?? "",
  });
  const radius = asked ? 7 : size(one.smoothed);
  const row = asked ? shown?.query : one.id; // of which there may be a picture
  group.append(shape("circle", { class: "disc", cx: x, cy: y, r: radius }));
  if (shown && row) group.append(face(row, x, y, radius - 0.8));
  group.append(
    shape("circle", { class: "ring", cx: x, cy: y, r: asked ? 9 : size(one.similarity) }));
  if (asked) group.append(shape("text", { x, y: y + 15 }, "query"));
  const show = () => {
    const panel = byId("node");
    panel.replaceChildren(make("p", {}, make("b", {}, called(one)), words.slice(called(one).length)));
    if (shown && row) panel.prepend(picture(row, called(one)));
  };
  group.addEventListener("mouseenter", show);
  group.addEventListener("focus", show);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && one.id !== null) pick(one.id);
  });
  return group;
}

// shown : null without pictures; its query is the row that was asked, if it is one
export function showGraph(cluster, shown, pick) {
  const { members, edges } = cluster;
  const { places, top } = layout(members);
  for (const one of members) if (!places.has(one)) places.set(one, [0, 0]);
  const heaviest = Math.max(...edges.map((edge) => edge[2]), 1e-9);
  const lines = edges.map(([a, b, weight]) => {
    const [[x1, y1], [x2, y2]] = [places.get(members[a]), places.get(members[b])];
    const share = weight / heaviest;
    return shape("line", { x1, y1, x2, y2, "stroke-width": 0.15 + 0.7 * share,
      "stroke-opacity": 0.1 + 0.35 * share });
  });
  const nodes = [...members].sort((a, b) => b.smoothed - a.smoothed)
    .map((one) => node(one, places.get(one), top, shown, pick));
  byId("graph").replaceChildren(...lines, ...nodes);
  byId("node").textContent = `${members.length} rows, ${edges.length} edges. ` +
    "Point at a row, or reach it with Tab.";
}
