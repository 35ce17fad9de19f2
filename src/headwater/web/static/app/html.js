// Templates without a build step: `html` makes Preact's nodes of a tagged template.

import htm from "../vendor/htm.js";
import { Component, h } from "../vendor/preact.js";

export const html = htm.bind(h);

/** What cannot be drawn says so in its place, and the rest of the page goes on. */
export class Safe extends Component {
  /** @param {Error} error */
  static getDerivedStateFromError(error) {
    return { error };
  }

  /** @param {any} props @param {any} state */
  render({ children }, { error }) {
    return error ? html`<p class="problem" role="alert">${String(error)}</p>` : children;
  }
}
