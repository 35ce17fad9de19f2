// Markdown of models and tools as DOM that can do no harm: elements are made one by one, never parsed from HTML. Images of
// other origins become links that name the host, links open elsewhere and tell nobody where from: nothing is fetched by
// looking at a text.

import { t } from "./i18n.js";
import { treesIn } from "./markdown.js";

/** @typedef {import("./markdown.js").Tree} Tree */

/** Whether the page itself may show what is at this address. @param {string} url @param {string} base */
export function isOwn(url, base) {
  try {
    const { protocol, origin } = new URL(url, base);
    return protocol === "blob:" || /^data:(image|audio|video)\//.test(url) || origin === new URL(base).origin;
  } catch {
    return false;
  }
}

/** @param {string} url @param {string} base @returns {string} the host that an address names, or the address */
export function hostOf(url, base) {
  try {
    const { host, protocol } = new URL(url, base);
    return host || protocol;
  } catch {
    return url;
  }
}

/** @param {string} url @param {string} base @returns {Record<string, string>} the attributes of a link to it */
export function linkTo(url, base) {
  /** @type {Record<string, string>} */
  const attributes = { rel: "noopener noreferrer nofollow", target: "_blank" };
  try {
    if (/^(https?|mailto):$/.test(new URL(url, base).protocol)) attributes.href = url;
  } catch {
    // no address: it stays text
  }
  return attributes;
}

/** A tree as the page shows it. @param {Tree} tree @param {string} base the page's address @returns {Tree} */
export function shown(tree, base) {
  if (typeof tree === "string") return tree;
  const [name, attributes, ...children] = tree;
  const inner = children.map((one) => shown(one, base));
  switch (name) {
    case "a":
      return [name, linkTo(attributes.href, base), ...inner];
    case "img": {
      const { src, alt } = attributes;
      if (isOwn(src, base)) return [name, { src, alt, loading: "lazy" }];
      const said = t("chat.image", { host: hostOf(src, base) });
      return ["a", { ...linkTo(src, base), class: "foreign" }, alt ? `${alt} · ${said}` : said];
    }
    case "table":
      return ["div", { class: "scroll", tabindex: 0 }, [name, {}, ...inner]];
    case "code":
      return "language" in attributes ? block(children[0], attributes.language) : [name, {}, ...inner];
    default:
      return [name, attributes, ...inner];
  }
}

/** A code block with its language and a button that copies it. @param {string} text @param {string} language @returns {Tree} */
function block(text, language) {
  const copy = async (/** @type {any} */ { target }) => {
    await navigator.clipboard.writeText(text);
    target.textContent = t("copy.done");
    setTimeout(() => (target.textContent = t("copy.copy")), 1500);
  };
  const canCopy = !!globalThis.navigator?.clipboard; // not on plain HTTP of another host
  return [
    "div", { class: "code" },
    ["div", { class: "code-bar" }, ["span", {}, language], ...(canCopy ? [["button", { type: "button", class: "quiet", onclick: copy }, t("copy.copy")]] : [])],
    ["pre", { tabindex: 0 }, ["code", {}, text]],
  ];
}

/** @param {Tree} tree @returns {Node} */
function nodeOf(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const [name, attributes, ...children] = tree;
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children.map(nodeOf));
  return element;
}

/**
 * Put a finished piece at the end of what is there. A list item that goes on with a list becomes a part of it.
 * @param {Element} into
 * @param {import("./commit.js").Piece} piece
 * @returns {string} its text, for who listens
 */
export function append(into, piece) {
  const nodes = treesIn(piece.text).map((tree) => nodeOf(shown(tree, document.baseURI)));
  const said = nodes.map((node) => node.textContent).join(" ");
  const last = into.lastElementChild;
  if (piece.joins && last && /^[UO]L$/.test(last.nodeName) && nodes[0]?.nodeName === last.nodeName) {
    last.append(.../** @type {Node} */ (nodes.shift()).childNodes);
  }
  into.append(...nodes);
  return said;
}
