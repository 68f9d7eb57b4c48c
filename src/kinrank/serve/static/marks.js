// What a person says of results: right or wrong, applied at once, undone at will, and exported.

import { byId, make, saveFile } from "./draw.js";

const said = new Map(); // of each query: id of a result -> "right" or "wrong", in the order said

const marksOf = (query) => said.get(query) ?? new Map();

export function sent(query) {
  const marks = [...marksOf(query)];
  const of = (word) => marks.filter(([, one]) => one === word).map(([id]) => id);
  return marks.length ? { right_ids: of("right"), wrong_ids: of("wrong") } : {};
}

// Say it, or take it back where it was said before.
function toggle(query, id, word) {
  const marks = said.get(query) ?? new Map();
  const before = marks.get(id);
  marks.delete(id);
  if (before !== word) marks.set(id, word);
  if (marks.size) said.set(query, marks);
  else said.delete(query);
}

export function buttons(query, result, changed) {
  const one = (word, sign) => {
    const pressed = marksOf(query).get(result.id) === word;
    const button = make("button", { type: "button", class: `mark ${word}`, "data-mark": word,
      "aria-pressed": String(pressed), "aria-label": `${result.name} is ${word}`,
      title: pressed ? `Take it back: ${word}` : `This is ${word}` }, sign);
    button.addEventListener("click", () => { toggle(query, result.id, word); changed(); });
    return button;
  };
  return make("span", { class: "marks" }, one("right", "✓"), one("wrong", "✕"));
}

export function showMarks(query, changed) {
  const marks = [...marksOf(query)];
  const others = said.size - (marks.length ? 1 : 0);
  const elsewhere = others === 1 ? "1 other query has marks." : `${others} other queries have marks.`;
  byId("said").hidden = said.size === 0;
  byId("undo").hidden = marks.length === 0;
  byId("said-words").textContent = marks.length
    ? "Your marks, which the right list follows:" : `No marks for this query; ${elsewhere}`;
  byId("said-list").replaceChildren(...marks.map(([id, word]) => {
    const button = make("button", { type: "button", class: `key ${word}`, "data-said": id,
      title: "Take it back" }, `${word === "right" ? "✓" : "✕"} ${id}`);
    button.addEventListener("click", () => { toggle(query, id, word); changed(); });
    return button;
  }));
}

export function undo(query) {
  const last = [...marksOf(query)].at(-1);
  if (last) toggle(query, ...last);
}

export function exported() {
  const all = [...said.keys()].map((query) => {
    const { right_ids: right, wrong_ids: wrong } = sent(query);
    return { query, right, wrong };
  });
  saveFile(new Blob([JSON.stringify(all, null, 1)], { type: "application/json" }), "marks.json");
}
