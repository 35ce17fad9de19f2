// Icons as inline SVG, drawn with the text's colour: no fonts, no requests.

import { html } from "./html.js";

/** @type {Record<string, string>} */
const PATHS = {
  alert: "M8 2.2 14.6 13.6H1.4zM8 6.4v3.2M8 11.6v.1",
  bars: "M2.5 13.5h11M4.5 11V8M8 11V3M11.5 11V6",
  bot: "M3 6.5h10v7H3zM8 6.5V3M6 9.8v.4M10 9.8v.4M1.2 9v2M14.8 9v2",
  check: "m3 8.5 3.2 3.3L13 4.6",
  chevron: "m6 3.5 4.5 4.5L6 12.5",
  clock: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M8 4.6V8l2.4 1.6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  dot: "M8 6a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
  down: "M8 2.5v11M3.5 9 8 13.5 12.5 9",
  edit: "M10.8 2.8 13.2 5.2 5.6 12.8 2.4 13.6 3.2 10.4z",
  file: "M4 1.8h5.2L12.5 5v9.2H4zM9 1.8v3.4h3.5",
  gantt: "M2 3.5h6M5 8h6M8 12.5h6",
  globe: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M1.8 8h12.4M8 1.8c3.6 4 3.6 8.4 0 12.4M8 1.8c-3.6 4-3.6 8.4 0 12.4",
  hand: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M6.2 5.6v4.8M9.8 5.6v4.8",
  inspect: "m5.5 4-4 4 4 4M10.5 4l4 4-4 4",
  lanes: "M2.2 2.5h3.2v11H2.2zM6.6 2.5h3.2v7H6.6zM11 2.5h3v9.4h-3z",
  menu: "M2 4h12M2 8h12M2 12h12",
  moon: "M13.4 9.6A5.8 5.8 0 1 1 6.4 2.6a4.8 4.8 0 0 0 7 7z",
  plus: "M8 2.8v10.4M2.8 8h10.4",
  send: "M8 13.5v-11M3.5 7 8 2.5 12.5 7",
  skip: "m3 3.5 6 4.5-6 4.5zM12.5 3.5v9",
  spark: "M8 1.8 9.6 6.4 14.2 8 9.6 9.6 8 14.2 6.4 9.6 1.8 8 6.4 6.4z",
  stop: "M4 4h8v8H4z",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.2v1.4M8 13.4v1.4M1.2 8h1.4M13.4 8h1.4M3.2 3.2l1 1M11.8 11.8l1 1M3.2 12.8l1-1M11.8 4.2l1-1",
  tool: "M10.2 2.2a3.6 3.6 0 0 0-3.4 4.9L2.2 11.7l2.1 2.1 4.6-4.6a3.6 3.6 0 0 0 4.7-4.6l-2 2-2-.2-.2-2z",
  wave: "M1.5 5.5c2.2-2.6 4.3-2.6 6.5 0s4.3 2.6 6.5 0M1.5 10.5c2.2-2.6 4.3-2.6 6.5 0s4.3 2.6 6.5 0",
  x: "m3.8 3.8 8.4 8.4M12.2 3.8l-8.4 8.4",
};

/** @param {{name: string, class?: string}} props */
export function Icon({ name, class: more = "" }) {
  return html`<svg class="icon ${more}" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

/** Something goes on. */
export function Spinner() {
  return html`<svg class="icon spinner" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <circle cx="8" cy="8" r="5.8" />
  </svg>`;
}
