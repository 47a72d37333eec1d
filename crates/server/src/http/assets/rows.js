// Tables whose rows stay the same elements while their contents change, so that a click on a button
// does not miss it.

import { setText } from "./format.js";

/**
 * Shows items as rows of a table's body.
 * `key` names an item, `make(item)` returns `{ row, update(item) }`.
 */
export class Rows {
  constructor(body, none, key, make) {
    Object.assign(this, { body, none, key, make, known: new Map() });
  }

  show(items) {
    const present = new Set();
    let place = this.body.firstElementChild;
    for (const item of items) {
      const key = this.key(item);
      present.add(key);
      if (!this.known.has(key)) this.known.set(key, this.make(item));
      const { row, update } = this.known.get(key);
      update(item);
      if (row === place) {
        place = place.nextElementSibling;
      } else {
        this.body.insertBefore(row, place);
      }
    }
    for (const [key, { row }] of this.known) {
      if (present.has(key)) continue;
      row.remove();
      this.known.delete(key);
    }
    this.none.hidden = items.length > 0;
    const table = this.body.closest("table");
    if (table) table.hidden = items.length === 0;
  }
}

/** A cell with a main text and a smaller one below. */
export function twoLines(cell) {
  const [first, second] = [document.createElement("span"), document.createElement("small")];
  cell.append(first, second);
  return (main, below, kind = "") => {
    setText(first, main);
    setText(second, below);
    second.hidden = below === "";
    if (first.className !== kind) first.className = kind;
  };
}
