// Markdown as trees of elements: what models write of CommonMark and GFM (headings, emphasis, code, lists, quotes,
// tables, links, images, rules). Pure. No HTML comes out of it and none goes in: tags in a text are text. What is cut
// off or malformed is shown as it stands; each line is looked at a bounded number of times.

/** @typedef {string | [string, Record<string, any>, ...any]} Tree text, or an element's name, attributes and children */

const FENCE = /^( {0,3})(`{3,}|~{3,}) *([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )| +|\t|$)/;
const DASHES = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const DEEPEST = 12; // quotes and lists within each other; what is deeper is text
const FARTHEST = 4000; // characters in which a bracket has to close
const MOST = 2000; // emphasis marks in a paragraph

/** Whether a line ends the paragraph before it. @param {string} line */
const isBlock = (line) => HEADING.test(line) || QUOTE.test(line) || RULE.test(line) || FENCE.test(line) || /^ {0,3}(?:[-*+]|1[.)]) +\S/.test(line);

/** @param {string} text @returns {Tree[]} */
export const treesIn = (text) => blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);

/** @param {string[]} lines @param {number} depth @param {boolean} [isTight] paragraphs are not marked as such @returns {Tree[]} */
function blocks(lines, depth, isTight = false) {
  /** @type {Tree[]} */
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    let found;
    if (!line.trim()) {
      at += 1;
    } else if ((found = FENCE.exec(line))) {
      const [, indent, fence, about] = found;
      const from = (at += 1);
      while (at < lines.length && !(lines[at].trim().startsWith(fence) && !lines[at].trim().replaceAll(fence[0], ""))) at += 1;
      const text = lines.slice(from, at).map((one) => one.replace(new RegExp(`^ {0,${indent.length}}`), ""));
      out.push(["code", { language: about.trim().split(/\s/)[0] }, text.join("\n")]);
      at += 1;
    } else if ((found = HEADING.exec(line))) {
      out.push([`h${found[1].length}`, {}, ...inline(found[2] ?? "")]);
      at += 1;
    } else if (RULE.test(line)) {
      out.push(["hr", {}]);
      at += 1;
    } else if (QUOTE.test(line) && depth < DEEPEST) {
      const from = at;
      while (at < lines.length && (QUOTE.test(lines[at]) || (lines[at].trim() && !isBlock(lines[at])))) at += 1;
      out.push(["blockquote", {}, ...blocks(lines.slice(from, at).map((one) => one.replace(QUOTE, "")), depth + 1)]);
    } else if (MARKER.test(line) && depth < DEEPEST) {
      at = list(lines, at, depth, out);
    } else if (line.includes("|") && DASHES.test(lines[at + 1] ?? "") && cells(line).length === cells(lines[at + 1]).length) {
      at = table(lines, at, out);
    } else {
      at = paragraph(lines, at, out, isTight);
    }
  }
  return out;
}

/** @param {string[]} lines @param {number} at @param {Tree[]} out @param {boolean} isTight @returns {number} where it ends */
function paragraph(lines, at, out, isTight) {
  const from = at;
  at += 1;
  while (at < lines.length && lines[at].trim() && !isBlock(lines[at]) && !UNDERLINE.test(lines[at])) at += 1;
  const text = lines.slice(from, at).map((one) => one.trimStart()).join("\n").trimEnd();
  const under = at < lines.length && UNDERLINE.exec(lines[at]);
  if (under) out.push([under[1][0] === "=" ? "h1" : "h2", {}, ...inline(text)]);
  else if (isTight) out.push(...inline(text));
  else out.push(["p", {}, ...inline(text)]);
  return under ? at + 1 : at;
}

/** @param {string[]} lines @param {number} at @param {number} depth @param {Tree[]} out @returns {number} where it ends */
function list(lines, at, depth, out) {
  const kind = (/** @type {string} */ marker) => (/\d/.test(marker) ? marker.at(-1) : marker);
  const first = /** @type {RegExpExecArray} */ (MARKER.exec(lines[at]));
  /** @type {string[][]} */
  const items = [];
  let isLoose = false;
  let wide = 0;
  let wasBlank = false;
  for (; at < lines.length; at += 1) {
    const line = lines[at];
    const marker = MARKER.exec(line);
    const indent = line.search(/\S/);
    if (indent < 0) {
      wasBlank = true;
      items.at(-1)?.push("");
      continue;
    }
    if (marker && (indent < wide || !items.length)) {
      if (kind(marker[2]) !== kind(first[2]) || RULE.test(line)) break;
      if (wasBlank && items.length) isLoose = true;
      wide = marker[1].length + marker[2].length + (marker[3]?.length ?? 1);
      items.push([line.slice(wide)]);
    } else if (indent >= wide || (indent >= 2 && indent >= wide - 2)) {
      if (wasBlank) isLoose ||= indent === wide;
      items.at(-1)?.push(line.slice(Math.min(indent, wide)));
    } else if (wasBlank || isBlock(line)) {
      break;
    } else {
      items.at(-1)?.push(line.trimStart());
    }
    wasBlank = false;
  }
  const start = Number.parseInt(first[2], 10);
  const isOrdered = !Number.isNaN(start);
  out.push([
    isOrdered ? "ol" : "ul",
    isOrdered && start !== 1 ? { start } : {},
    ...items.map((item) => {
      const task = /^\[([ xX])\] +/.exec(item[0]);
      const content = task ? [item[0].slice(task[0].length), ...item.slice(1)] : item;
      const made = blocks(content, depth + 1, !isLoose);
      return ["li", {}, ...(task ? [task[1] === " " ? "☐ " : "☑ "] : []), ...made];
    }),
  ]);
  return at;
}

/** @param {string} line @returns {string[]} */
function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((one) => one.trim().replaceAll("\\|", "|"));
}

/** @param {string[]} lines @param {number} at @param {Tree[]} out @returns {number} where it ends */
function table(lines, at, out) {
  const sides = cells(lines[at + 1]).map((one) => (/^:.*:$/.test(one) ? "center" : one.endsWith(":") ? "right" : ""));
  /** @type {(name: string, line: string) => Tree} */
  const row = (name, line) => {
    const found = cells(line);
    return ["tr", {}, ...sides.map((side, column) => [name, side ? { class: `to-${side}` } : {}, ...inline(found[column] ?? "")])];
  };
  const head = row("th", lines[at]);
  /** @type {Tree[]} */
  const body = [];
  for (at += 2; at < lines.length && lines[at].trim() && !isBlock(lines[at]); at += 1) body.push(row("td", lines[at]));
  out.push(["table", {}, ["thead", {}, head], ["tbody", {}, ...body]]);
  return at;
}

// -- inside a paragraph -----------------------------------------------------------------------------------------------

/** @type {Record<string, string>} */
const ENTITIES = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", ndash: "–", mdash: "—", hellip: "…", times: "×",
  deg: "°", larr: "←", rarr: "→", le: "≤", ge: "≥", copy: "©", euro: "€", bull: "•", middot: "·",
};
const REFERENCE = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(\w{2,8}));/y;
const URL_TEXT = /https?:\/\/[^\s<>"`\u3000-\u303f\uff00-\uffef]*[^\s<>"`\u3000-\u303f\uff00-\uffef.,:;!?'*_~)\]}]/y;
const AUTOLINK = /<((?:https?:|mailto:)[^\s<>]*|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)>/y;
const BREAK = /<br *\/?>/iy;
const MARK = /\*+|_+|~~/y;
const PLAIN = /[^\\`![<&*_~h\n]+|h(?!ttps?:\/\/)|[^]/y;

/** @param {RegExp} pattern sticky @param {string} text @param {number} at */
function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** @param {string} text @param {boolean} [isInLink] @returns {Tree[]} */
export function inline(text, isInLink = false) {
  /** @type {any[]} */
  const out = [];
  /** @type {Set<number>} */
  const unclosed = new Set(); // lengths of runs of backticks that nothing closes
  let marks = 0;
  let at = 0;
  let found;
  while (at < text.length) {
    const char = text[at];
    let length = 0;
    if (char === "\\" && /[!-/:-@[-`{-~\n]/.test(text[at + 1] ?? "")) {
      out.push(text[at + 1] === "\n" ? ["br", {}] : text[at + 1]);
      length = 2;
    } else if (char === "`") {
      length = /** @type {RegExpExecArray} */ (match(/`+/y, text, at))[0].length;
      const end = unclosed.has(length) ? -1 : closing(text, at + length, length);
      if (end < 0) {
        unclosed.add(length);
        out.push(text.slice(at, at + length));
      } else {
        const inner = text.slice(at + length, end).replaceAll("\n", " ");
        out.push(["code", {}, /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner]);
        length = end + length - at;
      }
    } else if ((char === "[" || (char === "!" && text[at + 1] === "[")) && (found = link(text, at, isInLink))) {
      out.push(found.tree);
      length = found.end - at;
    } else if (char === "<" && (found = match(BREAK, text, at))) {
      out.push(["br", {}]);
      length = found[0].length;
    } else if (char === "<" && !isInLink && (found = match(AUTOLINK, text, at))) {
      out.push(["a", { href: found[1].includes("@") && !found[1].includes(":") ? `mailto:${found[1]}` : found[1] }, found[1]]);
      length = found[0].length;
    } else if (char === "h" && !isInLink && (found = match(URL_TEXT, text, at))) {
      out.push(["a", { href: found[0] }, found[0]]);
      length = found[0].length;
    } else if (char === "&" && (found = match(REFERENCE, text, at))) {
      out.push(character(found));
      length = found[0].length;
    } else if ((found = match(MARK, text, at)) && (marks += 1) < MOST) {
      length = found[0].length;
      out.push(mark(text, at, length));
    } else if (char === "\n") {
      const before = out.at(-1);
      if (typeof before === "string" && before.endsWith("  ")) out.push(["br", {}]);
      else out.push("\n");
      length = 1;
    } else {
      length = /** @type {RegExpExecArray} */ (match(PLAIN, text, at))[0].length;
      out.push(text.slice(at, at + length));
    }
    at += length;
  }
  return joined(emphasised(out));
}

/** @param {string} text @param {number} from @param {number} length @returns {number} where a run of backticks closes */
function closing(text, from, length) {
  const runs = /`+/g;
  runs.lastIndex = from;
  for (let run = runs.exec(text); run; run = runs.exec(text)) if (run[0].length === length) return run.index;
  return -1;
}

/** @param {RegExpExecArray} found @returns {string} */
function character([whole, decimal, hex, name]) {
  if (name) return ENTITIES[name] ?? whole;
  const code = decimal ? Number(decimal) : Number.parseInt(hex, 16);
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
}

/** `[text](address "title")`, `![text](address)`. @param {string} text @param {number} at @param {boolean} isInLink */
function link(text, at, isInLink) {
  const isImage = text[at] === "!";
  if (isInLink && !isImage) return null;
  const from = at + (isImage ? 2 : 1);
  let depth = 1;
  let end = from;
  for (const last = Math.min(text.length, from + FARTHEST); end < last; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === "[") depth += 1;
    else if (text[end] === "]" && (depth -= 1) === 0) break;
  }
  if (depth || text[end + 1] !== "(") return null;
  const target = match(/\( *(?:<([^<>\n]*)>|((?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\])*\))*))(?:\s+(?:"[^"]*"|'[^']*'))? *\)/y, text, end + 1);
  if (!target) return null;
  const href = (target[1] ?? target[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1").replace(new RegExp(REFERENCE.source, "g"), (...all) => character(/** @type {any} */ (all)));
  const said = text.slice(from, end);
  /** @type {Tree} */
  const tree = isImage ? ["img", { src: href, alt: plain(inline(said, true)) }] : ["a", { href }, ...inline(said, true)];
  return { tree, end: end + 1 + target[0].length };
}

/** @param {Tree[]} trees @returns {string} */
export const plain = (trees) => trees.map((one) => (typeof one === "string" ? one : (one[1].alt ?? plain(one.slice(2))))).join("");

/** A run of emphasis marks, and whether it may begin or end something. @param {string} text @param {number} at @param {number} count */
function mark(text, at, count) {
  const before = text[at - 1] ?? " ";
  const after = text[at + count] ?? " ";
  const space = /\s/u;
  const sign = /[\p{P}\p{S}]/u;
  // Chinese has no spaces around what is emphasised: there a sign of its own is no hindrance.
  const wide = /[\u3000-\u303f\uff00-\uffef\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]/;
  const isLeft = !space.test(after) && (!sign.test(after) || space.test(before) || sign.test(before) || wide.test(before));
  const isRight = !space.test(before) && (!sign.test(before) || space.test(after) || sign.test(after) || wide.test(after));
  const isWord = text[at] === "_";
  return {
    sign: text[at], count,
    opens: isLeft && (!isWord || !isRight || sign.test(before)),
    closes: isRight && (!isWord || !isLeft || sign.test(after)),
  };
}

/** @param {any[]} nodes trees and marks @returns {any[]} */
function emphasised(nodes) {
  for (let at = 0; at < nodes.length; at += 1) {
    const closer = nodes[at];
    if (!closer?.closes || !closer.count) continue;
    let from = at - 1;
    const fits = (/** @type {any} */ one) =>
      one?.opens && one.count && one.sign === closer.sign &&
      !((one.closes || closer.opens) && (one.count + closer.count) % 3 === 0 && (one.count % 3 || closer.count % 3));
    while (from >= 0 && !fits(nodes[from])) from -= 1;
    if (from < 0) continue;
    const opener = nodes[from];
    const width = closer.sign === "~" ? 2 : Math.min(2, opener.count, closer.count);
    const name = closer.sign === "~" ? "del" : width === 2 ? "strong" : "em";
    const inner = nodes.slice(from + 1, at);
    opener.count -= width;
    closer.count -= width;
    nodes.splice(from + 1, inner.length, [name, {}, ...joined(inner)]);
    at = closer.count ? from + 1 : from + 2; // what is left of the closer may close more
  }
  return nodes;
}

/** Marks that stayed alone as text, and neighbouring texts as one. @param {any[]} nodes @returns {Tree[]} */
function joined(nodes) {
  /** @type {Tree[]} */
  const out = [];
  for (const node of nodes) {
    const one = Array.isArray(node) || typeof node === "string" ? node : node.sign.repeat(node.count);
    if (typeof one === "string" && typeof out.at(-1) === "string") out.push(out.pop() + one);
    else if (one !== "") out.push(one);
  }
  return out;
}
