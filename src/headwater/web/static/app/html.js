// Templates without a build step: `html` makes Preact's nodes of a tagged template.

import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";

export const html = htm.bind(h);
