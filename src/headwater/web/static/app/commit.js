// Which part of growing Markdown is finished. A finished block is rendered once and never again; the rest is shown as
// text. Pure; each character is looked at a bounded number of times.

const MARKER = /^( {0,3})(?:[-*+]|\d{1,9}[.)])(?: |\t|$)/;
const FENCE = /^\s*(`{3,}|~{3,})/;
const ENOUGH = 5; // characters of an unfinished line that tell whether it goes on with a list

/** @typedef {{text: string, joins: boolean}} Piece `joins`: it goes on with the list that the piece before is */

export class Committer {
  constructor() {
    /** Where what is not finished begins. */
    this.at = 0;
    this.line = 0;
    /** What closes the code block that is open, or "". */
    this.fence = "";
    this.isList = false;
    this.indent = 0;
    this.wasBlank = false;
    this.joins = false;
  }

  /**
   * The blocks that have become finished. `text` begins with what it was before.
   * @param {string} text
   * @param {boolean} [isOver] nothing will follow
   * @returns {Piece[]}
   */
  push(text, isOver = false) {
    /** @type {Piece[]} */
    const out = [];
    for (let end = text.indexOf("\n", this.line); end >= 0; end = text.indexOf("\n", this.line)) {
      this.read(text, text.slice(this.line, end), out);
      this.line = end + 1;
    }
    if (this.isList && this.wasBlank && !this.fence) {
      const begun = text.slice(this.line, this.line + ENOUGH);
      if (begun.trim().length > 1 && begun.length >= ENOUGH && !this.continues(begun)) this.cut(text, this.line, out, false);
    }
    if (isOver && this.at < text.length) this.cut(text, text.length, out, false);
    return out;
  }

  /** @param {string} text @param {string} line @param {Piece[]} out */
  read(text, line, out) {
    if (this.fence) {
      const marker = line.trim();
      if (marker.startsWith(this.fence) && !marker.replaceAll(this.fence[0], "")) this.fence = "";
      return;
    }
    if (!line.trim()) {
      if (this.isList) this.wasBlank = true;
      else this.cut(text, this.line + line.length + 1, out, false);
      return;
    }
    const marker = MARKER.exec(line);
    if (this.isList) {
      if (marker && marker[1].length <= this.indent) this.cut(text, this.line, out, true);
      else if (this.wasBlank && !this.continues(line)) this.cut(text, this.line, out, false);
    } else if (marker && text.slice(this.at, this.line).trim()) {
      this.cut(text, this.line, out, false); // a list right after a paragraph
    }
    if (marker && !this.isList) {
      this.isList = true;
      this.indent = marker[1].length;
    }
    this.wasBlank = false;
    const fence = FENCE.exec(line);
    if (fence) this.fence = fence[1];
  }

  /** Whether a line after an empty one still belongs to the list. @param {string} line */
  continues(line) {
    return /^(?: {2,}|\t)/.test(line) || MARKER.test(line);
  }

  /** @param {string} text @param {number} to @param {Piece[]} out @param {boolean} goesOn */
  cut(text, to, out, goesOn) {
    const piece = text.slice(this.at, to);
    if (piece.trim()) out.push({ text: piece, joins: this.joins });
    this.at = to;
    this.joins = goesOn;
    this.isList = false;
    this.wasBlank = false;
  }
}
