import assert from "node:assert/strict";
import { test } from "node:test";
import { Committer } from "../../src/headwater/web/static/app/commit.js";

const texts = {
  paragraphs: "One.\nStill one.\n\nTwo.\n\n\nThree.",
  heading: "# Title\n\nText under it.\n",
  code: "Before:\n\n```python\na = 1\n\n\nb = 2\n```\nAfter.\n\nEnd",
  "tilde code": "~~~\n```\n\n~~~\n\nEnd.",
  "longer fence": "````\n```\n\n```\n\n````\n\nEnd.",
  list: "Intro:\n- one\n- two\n  goes on\n\n  second paragraph of two\n- three\n  - inner\n\nAfter.",
  numbered: "1. one\n2. two\n\n3. three\n\nAfter the list.",
  "code in a list": "- one\n\n  ```sh\n  ls\n\n  pwd\n  ```\n- two\n",
  table: "| a | b |\n| - | - |\n| 1 | 2 |\n\nText",
  quote: "> one\n> two\n\nthree",
  chinese: "第一段。\n\n第二段：\n\n- 甲\n- 乙\n\n完。",
  empty: "",
};

const pieces = (text, sizes) => {
  const committer = new Committer();
  const out = [];
  let upTo = 0;
  while (upTo < text.length) {
    upTo = Math.min(text.length, upTo + sizes());
    out.push(...committer.push(text.slice(0, upTo)));
  }
  out.push(...committer.push(text, true));
  return out;
};

for (const [name, text] of Object.entries(texts)) {
  test(`${name}: the pieces are the text, and the same wherever it is cut`, () => {
    const whole = pieces(text, () => Infinity);
    assert.equal(whole.map((one) => one.text).join("").replace(/\s/g, ""), text.replace(/\s/g, ""));
    for (let size = 1; size < 12; size += 1) assert.deepEqual(pieces(text, () => size), whole);
    let seed = 7;
    const random = () => (seed = (seed * 16807) % 2147483647) % 9 + 1;
    for (let time = 0; time < 50; time += 1) assert.deepEqual(pieces(text, random), whole);
  });
}

const said = (text) => pieces(text, () => 1).map((one) => one.text.trim());

test("a paragraph is finished at the empty line after it", () => {
  const committer = new Committer();
  assert.deepEqual(committer.push("One.\nTwo."), []);
  assert.deepEqual(committer.push("One.\nTwo.\n\n").map((one) => one.text), ["One.\nTwo.\n\n"]);
});

test("a code block is one piece, with its empty lines", () => {
  assert.deepEqual(said(texts.code), ["Before:", "```python\na = 1\n\n\nb = 2\n```\nAfter.", "End"]);
  assert.deepEqual(said(texts["longer fence"]), ["````\n```\n\n```\n\n````", "End."]);
});

test("each item of a list is finished when the next begins, and joins the list", () => {
  const found = pieces(texts.list, () => 3);
  assert.deepEqual(found.map((one) => one.joins), [false, false, true, true, false]);
  assert.equal(found[2].text.trim(), "- two\n  goes on\n\n  second paragraph of two");
  assert.equal(found[3].text.trim(), "- three\n  - inner");
  assert.equal(found[4].text, "After.");
});

test("what is unfinished is what follows the last piece", () => {
  const committer = new Committer();
  const text = "Done.\n\nNot yet **bo";
  committer.push(text);
  assert.equal(text.slice(committer.at), "Not yet **bo");
});

test("a long text is scanned once, not again with each delta", () => {
  const committer = new Committer();
  let read = 0;
  const spied = committer.read.bind(committer);
  committer.read = (...all) => {
    read += 1;
    spied(...all);
  };
  let text = "";
  for (let line = 0; line < 2000; line += 1) {
    text += `line ${line}\n`;
    committer.push(text);
  }
  assert.equal(read, 2000);
});
