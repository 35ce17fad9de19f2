// Text that grows: finished blocks are rendered once, what is not finished is shown as text.

import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { Committer } from "../commit.js";
import { html } from "../html.js";
import { append } from "../md.js";
import { use } from "../state.js";

/** What is read out: a finished block, once, while it is news. */
export function announce(/** @type {string} */ text) {
  const region = document.getElementById("announcer");
  if (!region || !text.trim()) return;
  const line = document.createElement("p");
  line.textContent = text;
  region.append(line);
  while (region.childElementCount > 6) region.firstElementChild?.remove();
}

/** How far a block has been read out: it may stand in several views. @type {WeakMap<object, number>} */
const announced = new WeakMap();

/** Whether what has come is news, not a log that is read again. @param {number} ts Unix seconds */
export const isNews = (ts) => Date.now() / 1000 - ts < 8;

/** @param {{block: import("../reducer.js").Block}} props */
export function Prose({ block }) {
  use(block);
  const frame = useRef(/** @type {HTMLDivElement|null} */ (null));
  const drawn = useRef({ of: /** @type {object|null} */ (null), committer: new Committer() });
  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (frame.current);
    const [done, tail] = element.children;
    if (drawn.current.of !== block) {
      drawn.current = { of: block, committer: new Committer() }; // a run is read again from its beginning
      done.textContent = "";
    }
    const { committer } = drawn.current;
    let end = committer.at;
    for (const piece of committer.push(block.text, block.done)) {
      const said = append(done, piece);
      end += piece.text.length;
      if (end <= (announced.get(block) ?? 0)) continue;
      announced.set(block, end);
      if (isNews(block.last)) announce(said);
    }
    const rest = block.text.slice(committer.at);
    tail.className = committer.fence ? "tail mono" : "tail";
    if (tail.textContent !== rest) tail.textContent = rest;
  });
  return html`<div class=${`prose${block.done ? "" : " growing"}`} ref=${frame}>
    <div class="done"></div>
    <div class="tail"></div>
  </div>`;
}
