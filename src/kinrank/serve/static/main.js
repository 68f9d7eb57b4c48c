// The page: what is chosen, and what follows from it.

import { describe, get, picture, post } from "./api.js";
import { byId, called, make, percent } from "./draw.js";
import { drawLines, showLists } from "./lists.js";
import { showGraph } from "./graph.js";
import { showCurves } from "./curves.js";
import { listenEnlarged, ownThumbnail, thumbnail } from "./enlarge.js";
import { buttons, exported, sent, showMarks, undo } from "./marks.js";
import { listenLogin, notice, trying } from "./notice.js";

// Name, lowest, highest, step, and what it does for who has not read the paper.
const SLIDERS = [
  ["k1", 2, 100, 1, "How many nearest rows may be in the query's cluster. About as many as there " +
    "are right answers, or fewer."],
  ["k2", 1, 20, 1, "How many of the nearest rows are trusted most. Keep it well below k1."],
  ["omega", 0, 1, 0.01, "How much the plain distance counts in the result: 0 is re-ranking alone, " +
    "1 is the plain distance alone."],
  ["sigma", 0.05, 1.5, 0.01, "How fast similarity falls with distance. Small: only very near rows " +
    "are similar."],
  ["mu", 0.01, 2, 0.01, "How much similarity is held back while it spreads over the graph. Small: " +
    "it reaches further."],
  ["kappa", 0.1, 10, 0.1, "How much the k2 trusted rows count against the rest of the cluster."],
];
const GEODESIC = "Measure along chains of neighbours instead of straight from the query.";
const OPENED = "kinrank-parameters"; // whether the parameters are open, kept for the next visit
const PAGE = 60;
const WAIT = 600; // milliseconds that people may be left without an answer
const state = {
  info: null, query: null, params: {}, left: { method: "plain", params: {} }, right: "index",
  offset: 0, answer: null, curves: null,
  busy: false, again: false, asking: null, refining: false, shown: 0, slow: 0, slowAt: 1,
};

// Settings

const indexParams = () => Object.fromEntries(
  [...SLIDERS.map((one) => one[0]), "geodesic"].map((name) => [name, state.info.parameters[name]]));

function slider([name, low, high, step, words]) {
  const input = make("input", { type: "range", min: low, max: high, step, id: `set-${name}` });
  const output = make("output", { for: `set-${name}` });
  const label = make("label", { class: "slider" }, make("b", {}, name), output, input,
    make("span", { class: "hint" }, words));
  const show = () => { input.value = state.params[name]; output.textContent = state.params[name]; };
  input.addEventListener("input", () => {
    state.params[name] = Number(input.value);
    if (name === "k1" && state.params.k2 > state.params.k1) state.params.k2 = state.params.k1;
    if (name === "k2" && state.params.k2 > state.params.k1) state.params.k1 = state.params.k2;
    changed();
  });
  return { label, show };
}

function makeSettings() {
  const methods = state.info.methods;
  const words = { plain: "plain distance", index: "the index", cas: "CAS with the parameters below" };
  const options = (names) => names.map((name) => make("option", { value: name }, words[name] ?? name));
  byId("left").replaceChildren(...options(["plain", "index", ...methods.filter((one) => one !== "cas")]));
  byId("right").replaceChildren(...options(["index", "cas", "plain", ...methods.filter((one) => one !== "cas")]));
  state.params = indexParams();
  const sliders = SLIDERS.map(slider);
  const geodesic = make("input", { type: "checkbox", id: "set-geodesic" });
  geodesic.addEventListener("change", () => { state.params.geodesic = geodesic.checked; changed(); });
  byId("sliders").replaceChildren(...sliders.map((one) => one.label),
    make("label", { class: "slider" }, make("span", { class: "check" }, geodesic,
      make("b", {}, "geodesic")), make("span", { class: "hint" }, GEODESIC)));
  state.show = () => { sliders.forEach((one) => one.show()); geodesic.checked = state.params.geodesic; };
  state.show();
}

function changed() {
  state.right = "cas";
  byId("right").value = "cas";
  state.show();
  compare();
}

function rightSetting() {
  return { method: state.right, params: state.right === "cas" ? { ...state.params } : {} };
}

function named(setting) {
  if (setting.method === "plain") return "Plain distance";
  if (setting.method === "index") return "The index";
  const defaults = indexParams();
  const other = Object.entries(setting.params).filter(([name, value]) => defaults[name] !== value);
  const words = other.map(([name, value]) => `${name} ${value}`).join(", ");
  return words ? `${setting.method}: ${words}` : setting.method;
}

function keepLeft() {
  state.left = rightSetting();
  const select = byId("left");
  select.querySelector("[data-kept]")?.remove();
  if (state.left.method === "cas") {
    select.append(make("option", { value: "kept", "data-kept": "", selected: "" }, named(state.left)));
    select.kept = state.left;
    select.value = "kept";
  } else {
    select.value = state.left.method;
  }
  compare();
}

// Queries

async function list(more) {
  state.offset = more ? state.offset + PAGE : 0;
  const grid = byId("grid");
  if (!more) byId("found").textContent = "Looking …";
  const asked = new URLSearchParams({ search: byId("search").value, order: byId("order").value,
    offset: state.offset, limit: PAGE });
  const found = await get(`/v1/items?${asked}`);
  const tiles = found.items.map(tile);
  if (more) grid.append(...tiles);
  else grid.replaceChildren(...tiles);
  grid.querySelector(".tile")?.setAttribute("tabindex", 0);
  const count = found.total.toLocaleString("en");
  const sampled = byId("order").value === "given" ? "" :
    ` that were tried, out of ${state.info.rows.toLocaleString("en")}`;
  byId("found").textContent = found.total
    ? `${count} rows${sampled}` : "No row has this name or label. Try another word.";
  byId("more").hidden = state.offset + PAGE >= found.total;
}

function tile(item) {
  const words = item.after === null ? "" : `, AP ${percent(item.before)} before, ${percent(item.after)} after`;
  const button = make("button", { type: "button", class: "tile", role: "option", tabindex: -1,
    "data-id": item.id, "aria-selected": String(item.id === state.query?.id),
    "aria-label": `${called(item)}${words}`, title: `${called(item)}${words}` });
  if (state.info.images) button.append(picture(item.id, ""));
  const short = item.after !== null ? `AP ${(100 * item.after).toFixed(0)}` : item.label || item.name;
  button.append(make("span", {}, state.info.images ? short : called(item)));
  button.addEventListener("click", () => pick(item.id));
  return button;
}

function pick(id) {
  state.query = { id };
  byId("opening").hidden = true;
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  for (const one of byId("grid").children) {
    one.setAttribute("aria-selected", String(one.dataset.id === id));
  }
  compare();
}

async function drop(file) {
  if (!file) return;
  await trying(async () => {
    byId("found").textContent = "Describing the picture …";
    try {
      const { vector } = await describe(file);
      if (state.preview) URL.revokeObjectURL(state.preview);
      state.preview = URL.createObjectURL(file);
      state.query = { vector, name: file.name };
      byId("opening").hidden = true;
      history.replaceState(null, "", location.pathname);
      for (const one of byId("grid").children) one.setAttribute("aria-selected", "false");
      compare();
    } finally {
      byId("found").textContent = "";
    }
  });
}

// Results

// What was said is for the index: whoever says something sees its answer.
function marked() {
  state.right = byId("right").value = "index";
  compare();
}

const queryName = () => state.query.id ?? state.query.name;

// One question at a time. A newer one ends one under way that takes long, unless the lists have not
// changed for a while: whoever keeps moving a slider is to see something on the way.
async function compare() {
  if (!state.query) return;
  state.again = true;
  const late = performance.now() - state.shown > WAIT;
  if (state.refining || (!quick() && !late)) state.asking?.abort();
  byId("lists").classList.add("loading");
  byId("lists").setAttribute("aria-busy", "true");
  if (state.busy) return;
  state.busy = true;
  state.shown = performance.now();
  while (state.again) {
    state.again = false;
    try {
      await follow();
      notice(null);
    } catch (error) {
      notice(error); // the lists stay pale: they are not those of the query
    }
    state.refining = false;
  }
  state.busy = false;
  byId("lists").setAttribute("aria-busy", "false");
}

// Whether all rows can be ranked soon: as long as last time, and longer for larger clusters and paths.
function quick() {
  return state.slow * Math.max(1, work(rightSetting()) / state.slowAt) < WAIT / 2;
}

function work({ params }) {
  return (params.k1 ?? 1) ** 2 * (params.geodesic ? 3 : 1);
}

// All rows at once where that is quick; else the rows around the query first, and then all of them.
async function follow() {
  const asking = state.asking = new AbortController();
  const whole = quick();
  const refinable = await ask(whole, asking.signal);
  if (whole || !refinable || state.again) return;
  state.refining = true;
  const before = byId("scope").textContent;
  byId("scope").textContent = `${before} Ranking all rows …`;
  try {
    await ask(true, asking.signal);
  } catch (error) {
    if (error.name !== "AbortError") byId("scope").textContent = `${before} All rows: ${error.message}`;
  }
}

// Ask for the two rankings and show them; whether more can be known by asking for all rows.
async function ask(whole, signal) {
  const [left, right] = [state.left, rightSetting()];
  whole &&= [left, right].some((one) => one.method === "cas");
  const query = state.query.id ? { id: state.query.id } : { vector: state.query.vector };
  const begun = performance.now();
  const marks = right.method === "index" ? sent(queryName()) : {};
  const answer = await post("/v1/compare", { query, left, right, whole, ...marks,
    k: Number(byId("k").value), cluster: byId("cluster").open }, signal);
  if (signal.aborted) return false;
  state.answer = answer;
  state.shown = performance.now();
  if (whole) [state.slow, state.slowAt] = [state.shown - begun, work(right)];
  if (!state.again) byId("lists").classList.remove("loading");
  showQuery(answer.query);
  showLists(answer, { left: named(left), right: named(right) }, state.info.images, pick,
    (result) => buttons(queryName(), result, marked));
  showMarks(queryName(), marked);
  const shown = state.info.images ? { query: answer.query?.id } : null;
  if (answer.cluster) showGraph(answer.cluster, shown, pick);
  const part = [[left, answer.left], [right, answer.right]].filter(([, side]) => !side.whole);
  byId("scope").textContent = part.length ? `${named(part[0][0])} ranks ${part[0][1].scope}; ` +
    "the others follow by plain distance." : "";
  return part.some(([setting]) => setting.method === "cas");
}

function showQuery(item) {
  const box = byId("asked");
  if (item === null) {
    box.replaceChildren(ownThumbnail(state.preview, "your picture"),
      make("p", {}, `Your picture, ${state.query.name}`));
    return;
  }
  box.replaceChildren(make("p", {}, called(item)));
  if (state.info.images) box.prepend(thumbnail(item, null));
}

async function openCurves() {
  if (!byId("curves").open || state.curves) return;
  byId("curves-state").textContent = "Asking some rows, each without itself …";
  await trying(async () => {
    try {
      state.curves = await get("/v1/curves");
      showCurves(state.curves, pick);
    } catch (error) {
      byId("curves-state").textContent = `${error.message} Close and open this part to try again.`;
      throw error;
    }
  });
}

// Keys: arrows move in the grid

function moveInGrid(event) {
  const tiles = [...byId("grid").querySelectorAll(".tile")];
  const at = tiles.indexOf(document.activeElement);
  if (at < 0) return;
  const across = tiles.filter((one) => one.offsetTop === tiles[0].offsetTop).length;
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
  if (!by || !tiles[at + by]) return;
  event.preventDefault();
  tiles[at].tabIndex = -1;
  tiles[at + by].tabIndex = 0;
  tiles[at + by].focus();
}

function listen() {
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => trying(() => list(false)), 150);
  });
  byId("order").addEventListener("change", () => trying(() => list(false)));
  byId("more").addEventListener("click", () => trying(() => list(true)));
  byId("grid").addEventListener("keydown", moveInGrid);
  byId("k").addEventListener("change", compare);
  byId("left").addEventListener("change", () => {
    const select = byId("left");
    state.left = select.value === "kept" ? select.kept : { method: select.value, params: {} };
    compare();
  });
  byId("right").addEventListener("change", () => { state.right = byId("right").value; compare(); });
  byId("reset").addEventListener("click", () => {
    state.params = indexParams();
    state.show();
    state.right = byId("right").value = "index";
    compare();
  });
  byId("keep").addEventListener("click", keepLeft);
  byId("undo").addEventListener("click", () => { undo(queryName()); marked(); });
  byId("export").addEventListener("click", exported);
  byId("cluster").addEventListener("toggle", () => { if (byId("cluster").open) compare(); });
  byId("curves").addEventListener("toggle", openCurves);
  const parameters = byId("parameters");
  parameters.open = localStorage.getItem(OPENED) === "yes";
  parameters.addEventListener("toggle", () =>
    localStorage.setItem(OPENED, parameters.open ? "yes" : "no"));
  listenEnlarged();
  byId("file").addEventListener("change", () => drop(byId("file").files[0]));
  addEventListener("resize", () => { if (state.answer) drawLines(state.answer); });
  const zone = byId("drop");
  addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  addEventListener("dragleave", () => zone.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (state.info?.model) drop(event.dataTransfer.files[0]);
  });
}

function linked() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch { // an address that was cut off
    return "";
  }
}

// A query that gains by re-ranking, so that there is something to see; the first row without one.
async function openQuery() {
  const first = byId("grid").querySelector(".tile")?.dataset.id;
  const wanted = linked();
  if (wanted || !state.info.labels) {
    if ((wanted || first) !== undefined) pick(wanted || first);
    return;
  }
  byId("empty").textContent = "Looking for a query that gains by re-ranking …";
  let best;
  try {
    [best] = (await get("/v1/items?order=gained&limit=1")).items;
  } catch { /* a service at work: the first row will do */ }
  byId("empty").textContent = "Pick a query: choose a row, or drop a picture.";
  if (state.query) return; // somebody was quicker
  const gains = best && best.after > best.before;
  if (gains || first !== undefined) pick(gains ? best.id : first);
  if (!gains) return;
  byId("opening").textContent = `Opened on the query that gains most of those tried: AP ${
    percent(best.before)} before, ${percent(best.after)} after. Pick any other row under “Query”.`;
  byId("opening").hidden = false;
}

async function begin() {
  await trying(async () => {
    state.info = await get("/v1/info");
    const { info } = state;
    byId("login").hidden = true;
    document.title = `kinrank: ${info.title}`;
    byId("about").textContent = `${info.title}: ${info.rows.toLocaleString("en")} rows` +
      `${info.images ? ", one for each picture" : ", no pictures"}${info.labels ? "" : ", no labels"}. ` +
      `Each row is a vector of ${info.columns.toLocaleString("en")} numbers.`;
    byId("drop").hidden = !info.model;
    byId("order-label").hidden = !info.labels;
    document.body.classList.toggle("pixels", info.model === "8 x 8 pixels");
    byId("grid").classList.toggle("words", !info.images);
    byId("legend-labels").hidden = !info.labels;
    byId("legend-ap").hidden = !info.labels;
    makeSettings();
    byId("main").hidden = false;
    await list(false);
    await openQuery();
  });
  if (!state.info) byId("about").textContent = "";
}

listenLogin(begin);
listen();
begin();
