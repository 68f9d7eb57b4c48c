// The page to sort rows into groups: a grid of groups, the group that is open, single items, questions.
// Every correction is sent as it is made; what the service answers is what is shown.

import { Problem, download, get, picture, post } from "./api.js";
import { byId, make, percent, saveFile } from "./draw.js";
import { listenEnlarged, openLarge } from "./enlarge.js";
import { listenLogin, notice, trying } from "./notice.js";
import { VirtualGrid } from "./virtual.js";

const PAGE = 60;
const AGAIN = 1500; // milliseconds until a service that is grouping is asked again
const DRAGGED = "application/x-kinrank";
const KEYS = [
  ["Arrows", "go from one to the next"], ["Enter", "open a group, enlarge an item"],
  ["Space", "select"], ["M", "merge selected groups, or the open one with another"],
  ["N", "name the group"], ["C", "confirm the group"],
  ["S", "split the selected items off as a group"], ["X", "take the selected items out"],
  ["V", "move the selected items to another group"], ["U", "undo your last correction"],
  ["Y, N, K", "answer a question: yes, no, skip"], ["Escape", "close, or cancel"],
];

const state = {
  info: null, tab: "groups", answer: null,
  chosen: new Set(), // numbers of selected groups
  open: null, // what the service said of the group in the panel
  items: new Set(), // ids of selected items in the panel
  picking: null, // what happens to the group that is chosen next
  questions: [], skipped: new Set(), loading: false,
};
let groups = null; // grids
let members = null;

// A name for whoever sits here, so that Undo takes back one's own corrections only.
function author() {
  let name = localStorage.getItem("kinrank-author");
  if (!name) {
    name = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
    localStorage.setItem("kinrank-author", name);
  }
  return name;
}

const title = (group) => group.name || `Group ${group.number}`;
const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const sleep = (time) => new Promise((done) => { setTimeout(done, time); });

// The first answer may take a while: rows are grouped when they are first asked for.
async function patiently(path) {
  for (;;) {
    try {
      return await get(path);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 503) throw error;
      byId("about").textContent = "The rows are being grouped, which happens once …";
      await sleep(AGAIN);
    }
  }
}

// Pictures where there are some, names where there are none

function face(item, size) {
  return state.info.images ? picture(item.id, item.name, size) : make("span", {}, item.name);
}

function groupTile(group) {
  const mosaic = make("div", { class: state.info.images ? "mosaic" : "mosaic words" },
    ...group.cover.slice(0, state.info.images ? 5 : 8).map((item) => face(item, 240)));
  const sure = group.confirmed ? "✓ confirmed" : `${percent(group.cohesion)} close`;
  const tile = make("div", {
    class: "group", role: "option", tabindex: "0", draggable: "true", "data-number": group.number,
    "aria-label": `${title(group)}, ${count(group.size, "item")}, ${sure}`,
  }, mosaic, make("div", { class: "caption" }, make("b", {}, title(group)),
    make("span", {}, `${group.size.toLocaleString("en")} · ${sure}`)));
  tile.classList.toggle("confirmed", group.confirmed);
  tile.classList.toggle("opened", state.open?.group.number === group.number);
  tile.setAttribute("aria-selected", state.chosen.has(group.number));
  tile.addEventListener("click", (event) => clickGroup(group, event));
  tile.addEventListener("dragstart", (event) =>
    event.dataTransfer.setData(DRAGGED, JSON.stringify({ group: group.number })));
  dropTarget(tile, (dragged) => dropOnGroup(dragged, group));
  return tile;
}

function singleTile(single) {
  const tile = make("div", { class: "item single", role: "option", tabindex: "0", draggable: "true",
    "aria-label": `${single.row.name}, belongs to no group` });
  const likely = single.candidates.map((group) => {
    const words = `Put ${single.row.name} to ${title(group)} (${count(group.size, "item")})`;
    const button = make("button", { type: "button", title: words, "aria-label": words },
      face(group.cover, 96), make("span", {}, `${Math.round(100 * group.link)} %`));
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      correct({ kind: "move", ids: [single.row.id], to: group.number });
    });
    return button;
  });
  tile.append(face(single.row, 240), make("span", {}, single.row.name),
    make("div", { class: "likely" }, ...likely));
  tile.addEventListener("dblclick", () => enlarge(single.row));
  tile.addEventListener("dragstart", (event) =>
    event.dataTransfer.setData(DRAGGED, JSON.stringify({ group: single.number })));
  dropTarget(tile, (dragged) => dropOnGroup(dragged, single));
  return tile;
}

function memberTile(item) {
  const tile = make("div", { class: "item", role: "option", tabindex: "0", draggable: "true",
    "data-id": item.id, "aria-label": item.name }, face(item, 240));
  if (state.info.images) tile.append(make("span", {}, item.name));
  tile.setAttribute("aria-selected", state.items.has(item.id));
  tile.addEventListener("click", () => selectItem(item));
  tile.addEventListener("dblclick", () => enlarge(item));
  tile.addEventListener("dragstart", (event) => {
    const ids = state.items.has(item.id) ? [...state.items] : [item.id];
    event.dataTransfer.setData(DRAGGED, JSON.stringify({ ids, from: state.open.group.number }));
  });
  return tile;
}

function enlarge(item) {
  if (state.info.images) openLarge(item.id, item.name);
}

function dropTarget(tile, drop) {
  tile.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes(DRAGGED)) return;
    event.preventDefault();
    tile.classList.add("target");
  });
  tile.addEventListener("dragleave", () => tile.classList.remove("target"));
  tile.addEventListener("drop", (event) => {
    event.preventDefault();
    tile.classList.remove("target");
    drop(JSON.parse(event.dataTransfer.getData(DRAGGED)));
  });
}

function dropOnGroup(dragged, group) {
  if (dragged.ids && dragged.from !== group.number) {
    correct({ kind: "move", ids: dragged.ids, to: group.number });
  } else if (dragged.group !== undefined && dragged.group !== group.number) {
    correct({ kind: "merge", groups: [group.number, dragged.group] });
  }
}

// The list on the left

const listing = () => new URLSearchParams({
  search: byId("search").value, order: byId("order").value, open_only: byId("open-only").checked,
});

function makeGrid(single) {
  const large = state.info.images ? 1 : 0.7;
  groups = new VirtualGrid({
    scroller: byId("grid"), width: (single ? 170 : 250) * (large === 1 ? 1 : 1.1),
    height: (single ? 230 : 230) * large,
    key: (entry) => JSON.stringify([entry, state.chosen.has(entry.number),
      state.open?.group.number === entry.number]),
    draw: single ? singleTile : groupTile,
    more: () => trying(more),
  });
}

async function list() {
  const single = state.tab === "singles";
  makeGrid(single);
  if (single) {
    const answer = await patiently(`/v1/groups/singles?limit=${PAGE}`);
    groups.replace(answer.listed, answer.total);
    return;
  }
  const answer = await patiently(`/v1/groups?${listing()}&limit=${PAGE}`);
  state.answer = answer;
  about();
  groups.replace(answer.listed, answer.total);
}

async function more() {
  if (state.loading) return;
  state.loading = true;
  try {
    // Corrections may have moved the list a little: an overlap makes sure that nothing is left out.
    const offset = Math.max(0, groups.entries.length - 20);
    const single = state.tab === "singles";
    const path = single ? "/v1/groups/singles?" : `/v1/groups?${listing()}&`;
    const answer = await get(`${path}offset=${offset}&limit=${2 * PAGE}`);
    const known = new Set(groups.entries.map((entry) => entry.number));
    const fresh = answer.listed.filter((entry) => !known.has(entry.number));
    const entries = [...groups.entries, ...fresh];
    groups.replace(entries, fresh.length ? answer.total : entries.length);
  } finally {
    state.loading = false;
  }
  groups.show(); // which asks for more where what is seen lies further down
}

function about() {
  const { answer, info } = state;
  byId("about").textContent = `${info.title}: ${count(answer.rows, "item")} in ${
    count(answer.groups, "group")}, ${answer.singles.toLocaleString("en")} in none.`;
  byId("unsure").hidden = answer.sure;
  byId("unsure").textContent = answer.verdict;
}

// The group in the panel

async function open(number) {
  state.items.clear();
  const offset = 0;
  state.open = await get(`/v1/groups/${number}?offset=${offset}&limit=200`);
  byId("panel").hidden = false;
  showPanel();
}

function showPanel() {
  const { group, text, nearest, leaning } = state.open;
  byId("panel-title").textContent = `${title(group)}: ${count(group.size, "item")}` +
    `${group.confirmed ? ", confirmed" : ""}`;
  byId("panel-text").textContent = text;
  const hints = [];
  if (nearest) {
    const words = `Merge with the nearest: ${title(nearest)} (${Math.round(100 * nearest.link)} %)`;
    hints.push(hint(words, () => correct({ kind: "merge", groups: [group.number, nearest.number] })));
  }
  if (leaning.length) {
    hints.push(hint(`Select ${count(leaning.length, "item")} that may not belong here`, () => {
      leaning.forEach((lean) => state.items.add(lean.row.id));
      members.show();
      showTools();
    }));
  }
  byId("panel-hints").replaceChildren(...hints);
  members ??= new VirtualGrid({
    scroller: byId("members"), width: state.info.images ? 140 : 180,
    height: state.info.images ? 160 : 48,
    key: (item) => JSON.stringify([item, state.items.has(item.id)]),
    draw: memberTile,
    more: () => trying(moreMembers),
  });
  members.replace(state.open.members, group.size);
  groups.show();
  showTools();
}

async function moreMembers() {
  const { group } = state.open;
  const rows = state.open.members;
  const part = await get(`/v1/groups/${group.number}?offset=${rows.length}&limit=500`);
  if (state.open.group !== group) return;
  rows.push(...part.members);
  members.replace(rows, part.members.length ? group.size : rows.length);
}

function hint(words, act) {
  const button = make("button", { type: "button" }, words);
  button.addEventListener("click", act);
  return button;
}

function close() {
  const number = state.open?.group.number;
  state.open = null;
  state.items.clear();
  byId("panel").hidden = true;
  groups.show();
  groups.focus(groups.entries.findIndex((entry) => entry.number === number));
}

function selectItem(item) {
  if (!state.items.delete(item.id)) state.items.add(item.id);
  members.show();
  showTools();
}

function showTools() {
  const may = state.answer?.can_correct ?? false;
  const some = state.items.size > 0;
  for (const button of byId("panel-tools").children) {
    const needs = ["split", "remove", "move"].includes(button.dataset.do);
    button.disabled = !may || (needs && !some);
  }
  for (const id of ["undo", "merge"]) byId(id).disabled = !may;
  byId("merge").hidden = state.chosen.size < 2;
  byId("merge").textContent = `Merge ${state.chosen.size} groups`;
}

function clickGroup(group, event) {
  if (state.picking) {
    const { picking } = state;
    pick(null);
    picking(group);
  } else if (event.shiftKey || event.ctrlKey || event.metaKey) {
    choose(group);
  } else {
    trying(() => open(group.number));
  }
}

function choose(group) {
  if (!state.chosen.delete(group.number)) state.chosen.add(group.number);
  groups.show();
  showTools();
}

// Wait for a group to be chosen; null stops waiting.
function pick(act, words = "") {
  state.picking = act;
  byId("picking").hidden = act === null;
  byId("picking-words").textContent = words;
  if (act && matchMedia("(max-width: 52rem)").matches) byId("panel").hidden = true;
  if (!act && state.open) byId("panel").hidden = false;
}

// Corrections

const ACTIONS = {
  name: () => askName(state.open.group),
  confirm: () => correct({ kind: "confirm", groups: [state.open.group.number] }),
  merge: () => pick((group) => correct({
    kind: "merge", groups: [state.open.group.number, group.number] }),
  "Choose the group to merge it with."),
  split: () => correct({ kind: "split", groups: [state.open.group.number], ids: [...state.items] }),
  remove: () => correct({ kind: "remove", ids: [...state.items] }),
  move: () => {
    const ids = [...state.items];
    pick((group) => correct({ kind: "move", ids, to: group.number }),
      `Choose the group for ${count(ids.length, "item")}.`);
  },
};

function askName(group) {
  const dialog = byId("naming");
  const input = byId("naming-input");
  input.value = group.name ?? "";
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue === "ok") {
      correct({ kind: "name", groups: [group.number], name: input.value });
    }
  };
  dialog.showModal();
  input.select();
}

// What was seen of the groups that a correction is about, so that nobody overwrites anybody.
function seen(sent) {
  const cards = new Map(groups.entries.map((entry) => [entry.number, entry.state]));
  if (state.open) cards.set(state.open.group.number, state.open.group.state);
  for (const question of state.questions) {
    cards.set(question.one_group.number, question.one_group.state);
    cards.set(question.other_group.number, question.other_group.state);
  }
  const numbers = [...(sent.groups ?? []), sent.to].filter((number) => cards.has(number));
  if (sent.ids && state.open && sent.kind !== "merge") numbers.push(state.open.group.number);
  return Object.fromEntries(numbers.map((number) => [number, cards.get(number)]));
}

async function correct(sent) {
  try {
    const answer = await post("/v1/groups/corrections",
      { ...sent, seen: seen(sent), author: author() });
    byId("said").textContent = answer.text;
    notice(null);
    await follow(answer);
  } catch (error) {
    notice(error);
    if (error instanceof Problem && [404, 409].includes(error.status)) await reload();
  }
}

// Show what a correction has changed where it stands, without sorting the list again.
async function follow(answer) {
  state.items.clear();
  state.chosen.clear();
  const gone = new Set(answer.gone);
  const others = new Map(answer.groups.map((group) => [group.number, group]));
  if (state.tab === "groups") {
    const touched = (entry) => gone.has(entry.number) || others.has(entry.number);
    const place = Math.max(0, groups.entries.findIndex(touched));
    const entries = groups.entries.filter((entry) => !gone.has(entry.number))
      .map((entry) => others.get(entry.number) ?? entry).filter((entry) => entry.size > 1);
    const listed = new Set(entries.map((entry) => entry.number));
    const fresh = answer.groups.filter((group) => group.size > 1 && !listed.has(group.number));
    entries.splice(place, 0, ...fresh);
    groups.replace(entries, groups.total + entries.length - groups.entries.length);
  } else if (state.tab === "singles") {
    const place = byId("grid").scrollTop;
    await list();
    byId("grid").scrollTop = place;
  }
  await counts();
  if (state.open) {
    const { number } = state.open.group;
    const left = others.get(number) ?? (gone.has(number) ? null : state.open.group);
    if (left) await open(number);
    else close();
  }
  showTools();
}

async function counts() {
  const answer = await get("/v1/groups?limit=1");
  state.answer = { ...state.answer, ...answer };
  about();
}

async function reload() {
  const number = state.open?.group.number;
  await trying(async () => {
    if (state.tab === "questions") await ask(); else await list();
    await counts();
  });
  if (number !== undefined) {
    try {
      await open(number);
    } catch {
      close(); // somebody has merged it into another
    }
  }
}

// Questions

async function ask() {
  const { listed } = await patiently("/v1/groups/questions?limit=20");
  state.questions = listed.filter((question) => !state.skipped.has(asked(question)));
  showQuestion();
}

const asked = (question) => JSON.stringify([question.one.id, question.other.id]);

function showQuestion() {
  const [question] = state.questions;
  for (const id of ["answer-yes", "answer-no", "answer-skip"]) byId(id).hidden = !question;
  byId("asking-title").textContent = question ? "Are these the same?" : "No more questions";
  byId("asking-text").textContent = question ? question.text
    : "Nothing that is worth asking is left.";
  const side = (item, group) => (item ? [face(item, 512), make("p", {}, item.name),
    make("p", { class: "soft" }, `${title(group)}, ${count(group.size, "item")}`),
    make("div", { class: "few" }, ...group.cover.slice(0, 6).map((one) => face(one, 96)))] : []);
  byId("asking-one").replaceChildren(...side(question?.one, question?.one_group));
  byId("asking-other").replaceChildren(...side(question?.other, question?.other_group));
}

async function answer(kind) {
  const question = state.questions.shift();
  if (!question) return;
  if (kind === "skip") {
    state.skipped.add(asked(question));
    showQuestion();
  } else {
    await correct({ kind, ids: [question.one.id, question.other.id],
      groups: [question.one_group.number, question.other_group.number] });
    await trying(ask);
  }
}

// Keys

function onKey(event) {
  const typing = event.target.matches("input, select, textarea, dialog *");
  if (typing || event.altKey || (event.ctrlKey && event.key !== "z") || event.metaKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (state.tab === "questions" && { y: 1, n: 1, k: 1 }[key]) {
    answer({ y: "together", n: "apart", k: "skip" }[key]);
  } else if (key === "Escape") {
    if (state.picking) pick(null);
    else if (state.open) close();
  } else if (key === "u" || (key === "z" && event.ctrlKey)) {
    correct({ kind: "undo" });
  } else if (!onTile(event, key) && !onOpen(key)) {
    return;
  }
  event.preventDefault();
}

// Keys of the tile that has the focus; returns whether there was something to do.
function onTile(event, key) {
  const tile = event.target.closest(".plane > [data-place]");
  if (!tile) return false;
  const grid = tile.closest("#members") ? members : groups;
  const place = Number(tile.dataset.place);
  const entry = grid.entries[place];
  const next = grid.step(place, key);
  if (next !== null) {
    grid.focus(next);
  } else if (key === " ") {
    if (grid === members) selectItem(entry);
    else if (entry.number !== undefined) choose(entry);
  } else if (key === "Enter") {
    if (event.target.matches("button")) return false;
    if (grid === members) enlarge(entry);
    else if (entry.cover) clickGroup(entry, event);
    else enlarge(entry.row);
  } else if (!state.open && entry.cover && ["n", "c"].includes(key)) {
    if (key === "n") askName(entry);
    else correct({ kind: "confirm", groups: [entry.number] });
  } else {
    return false;
  }
  return true;
}

function onOpen(key) {
  if (key === "m" && state.chosen.size > 1) {
    correct({ kind: "merge", groups: [...state.chosen] });
    return true;
  }
  const named = { n: "name", c: "confirm", m: "merge", s: "split", x: "remove", v: "move" }[key];
  const needs = ["split", "remove", "move"].includes(named);
  if (!state.open || !named || (needs && state.items.size === 0)) return false;
  ACTIONS[named]();
  return true;
}

function show(tab) {
  state.tab = tab;
  state.chosen.clear();
  if (state.open) close();
  for (const name of ["groups", "singles", "questions"]) {
    byId(`tab-${name}`).setAttribute("aria-selected", name === tab);
  }
  for (const id of ["search-label", "order-label", "open-label"]) byId(id).hidden = tab !== "groups";
  byId("grid").hidden = tab === "questions";
  byId("asking").hidden = tab !== "questions";
  showTools();
  return trying(tab === "questions" ? ask : list);
}

async function save(kind) {
  const path = `/v1/groups/export?kind=${kind}`;
  await trying(async () => saveFile(await download(path), `groups.${kind}`));
}

function listen() {
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => trying(list), 200);
  });
  for (const id of ["order", "open-only"]) byId(id).addEventListener("change", () => trying(list));
  for (const name of ["groups", "singles", "questions"]) {
    byId(`tab-${name}`).addEventListener("click", () => show(name));
  }
  byId("undo").addEventListener("click", () => correct({ kind: "undo" }));
  byId("merge").addEventListener("click", () => correct({ kind: "merge", groups: [...state.chosen] }));
  byId("panel-close").addEventListener("click", close);
  byId("picking-stop").addEventListener("click", () => pick(null));
  byId("export-csv").addEventListener("click", () => save("csv"));
  byId("export-json").addEventListener("click", () => save("json"));
  byId("answer-yes").addEventListener("click", () => answer("together"));
  byId("answer-no").addEventListener("click", () => answer("apart"));
  byId("answer-skip").addEventListener("click", () => answer("skip"));
  for (const button of byId("panel-tools").children) {
    button.addEventListener("click", () => ACTIONS[button.dataset.do]());
  }
  byId("keys").replaceChildren(...KEYS.flatMap(([key, words]) =>
    [make("dt", {}, key), make("dd", {}, words)]));
  document.addEventListener("keydown", onKey);
}

async function begin() {
  await trying(async () => {
    state.info = await get("/v1/info");
    byId("login").hidden = true;
    document.title = `kinrank: ${state.info.title}, groups`;
    document.body.classList.toggle("pixels", state.info.model === "8 x 8 pixels");
    byId("main").hidden = false;
    await list();
    showTools();
  });
  if (!state.info) byId("about").textContent = "";
}

listenLogin(begin);
listenEnlarged();
listen();
begin();
