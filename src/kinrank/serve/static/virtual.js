// A grid of which only what is seen is drawn, however long it is. Its entries come by and by: `more`
// is asked for the next ones when the end of those at hand comes into view.

import { make } from "./draw.js";

const SPARE = 2; // rows drawn above and below what is seen

export class VirtualGrid {
  // scroller : the element that scrolls; width, height : of a tile, in pixels
  // key(entry) : changes when a tile has to be drawn anew; draw(entry) : its element
  constructor({ scroller, width, height, key, draw, more }) {
    Object.assign(this, { scroller, width, height, key, draw, more });
    this.entries = [];
    this.total = 0;
    this.drawn = new Map(); // place -> [key, element]
    this.plane = make("div", { class: "plane" });
    scroller.replaceChildren(this.plane);
    scroller.addEventListener("scroll", () => this.show(), { passive: true });
    new ResizeObserver(() => this.show()).observe(scroller);
  }

  get columns() {
    return Math.max(1, Math.floor(this.scroller.clientWidth / this.width));
  }

  replace(entries, total) {
    this.entries = entries;
    this.total = Math.max(total, entries.length);
    this.show();
  }

  show() {
    const { columns, height } = this;
    const across = Math.floor(this.scroller.clientWidth / columns);
    const rows = Math.ceil(this.total / columns);
    this.plane.style.height = `${rows * height}px`;
    const top = Math.max(0, Math.floor(this.scroller.scrollTop / height) - SPARE);
    const seen = Math.ceil(this.scroller.clientHeight / height) + 2 * SPARE;
    const first = top * columns;
    const last = Math.min((top + seen) * columns, this.entries.length);
    for (const [place, [, element]] of this.drawn) {
      if (place < first || place >= last) {
        element.remove();
        this.drawn.delete(place);
      }
    }
    for (let place = first; place < last; place += 1) {
      const element = this.tile(place);
      element.style.left = `${(place % columns) * across}px`;
      element.style.top = `${Math.floor(place / columns) * height}px`;
      element.style.width = `${across - 8}px`;
      element.style.height = `${height - 8}px`;
    }
    const wanted = (top + seen) * columns;
    if (wanted > this.entries.length && this.entries.length < this.total) this.more();
  }

  tile(place) {
    const entry = this.entries[place];
    const key = this.key(entry);
    const [known, old] = this.drawn.get(place) ?? [];
    if (known === key) return old;
    const element = this.draw(entry, place);
    element.dataset.place = place;
    const focused = old?.contains(document.activeElement);
    if (old) old.replaceWith(element); else this.plane.append(element);
    this.drawn.set(place, [key, element]);
    if (focused) element.focus();
    return element;
  }

  // Bring an entry into view and give it the focus.
  focus(place) {
    if (place < 0 || place >= this.entries.length) return;
    const top = Math.floor(place / this.columns) * this.height;
    const { scroller } = this;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    const bottom = top + this.height - scroller.clientHeight;
    if (bottom > scroller.scrollTop) scroller.scrollTop = bottom;
    this.show();
    this.drawn.get(place)?.[1].focus();
  }

  // Where an arrow leads from a place; null for other keys.
  step(place, key) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    if (!(key in steps)) return null;
    return Math.min(Math.max(place + steps[key], 0), this.entries.length - 1);
  }
}
