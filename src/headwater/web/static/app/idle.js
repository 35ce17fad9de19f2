// When the person last did something, and where: the page takes neither the focus nor the scroll position from somebody at
// work.

let at = 0;
/** @type {EventTarget|null} */
let where = null;
for (const kind of ["keydown", "pointerdown", "input", "wheel"]) {
  globalThis.addEventListener?.(
    kind,
    (event) => {
      at = Date.now();
      where = event.target;
    },
    { capture: true, passive: true },
  );
}

/** @returns {number} milliseconds since then */
export const idleFor = () => Date.now() - at;

/** Whether it was just now, in this element. @param {Element} element */
export const isBusyIn = (element) => idleFor() < 800 && where instanceof Node && (element.contains(where) || !where.isConnected);
