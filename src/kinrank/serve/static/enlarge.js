// A picture of a list, large: opened by a click or a key, closed by Escape, the button or a click
// beside it. The browser's own dialog keeps the focus and gives it back.

import { picture } from "./api.js";
import { byId, called, make } from "./draw.js";

const LARGE = 1024; // pixels; pictures that are smaller are shown as they are

const dialog = () => byId("enlarged");

function open(image, words, choose) {
  byId("enlarged-picture").replaceChildren(image);
  byId("enlarged-words").textContent = words;
  const query = byId("enlarged-query");
  query.hidden = choose === null;
  query.onclick = () => { dialog().close(); choose(); };
  dialog().showModal();
}

// A thumbnail of a row that opens the large picture; pick : makes the row the query, null without.
export function thumbnail(item, pick) {
  const button = make("button", { type: "button", class: "thumb", "data-thumb": item.id,
    "aria-label": `Enlarge the picture of ${called(item)}`, title: "Enlarge" });
  button.append(picture(item.id, ""));
  button.addEventListener("click", () =>
    open(picture(item.id, called(item), LARGE), called(item), pick && (() => pick(item.id))));
  return button;
}

// The same for a picture that is no row.
export function ownThumbnail(url, words) {
  const button = make("button", { type: "button", class: "thumb",
    "aria-label": `Enlarge ${words}`, title: "Enlarge" }, make("img", { src: url, alt: "" }));
  button.addEventListener("click", () => open(make("img", { src: url, alt: words }), words, null));
  return button;
}

// The large picture of a row.
export function openLarge(id, words) {
  open(picture(id, words, LARGE), words, null);
}

export function listenEnlarged() {
  byId("enlarged-close").addEventListener("click", () => dialog().close());
  dialog().addEventListener("click", (event) => {
    if (event.target === dialog()) dialog().close(); // beside the picture
  });
}
