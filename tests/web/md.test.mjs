import assert from "node:assert/strict";
import { test } from "node:test";
import { inline, treesIn } from "../../src/headwater/web/static/app/markdown.js";
import { isOwn, shown } from "../../src/headwater/web/static/app/md.js";

const BASE = "http://127.0.0.1:7777/";
const trees = (text) => treesIn(text).map((tree) => shown(tree, BASE));
const said = (tree) => (typeof tree === "string" ? tree : Array.isArray(tree) ? tree.slice(2).map(said).join("") : "");
const every = function* (list) {
  for (const tree of list) {
    if (!Array.isArray(tree)) continue;
    yield tree;
    yield* every(tree.slice(2));
  }
};

test("what Markdown is for becomes elements", () => {
  assert.deepEqual(trees("# A *b*\n\nc `d` **e** ~~f~~\\*"), [
    ["h1", {}, "A ", ["em", {}, "b"]],
    ["p", {}, "c ", ["code", {}, "d"], " ", ["strong", {}, "e"], " ", ["del", {}, "f"], "*"],
  ]);
  assert.deepEqual(trees("3. a\n4. b\n   - c"), [
    ["ol", { start: 3 }, ["li", {}, "a"], ["li", {}, "b", ["ul", {}, ["li", {}, "c"]]]],
  ]);
  const [[, , table]] = trees("| a | b |\n| --- | --: |\n| 1 | 2 |");
  assert.deepEqual(table, [
    "table", {},
    ["thead", {}, ["tr", {}, ["th", {}, "a"], ["th", { class: "to-right" }, "b"]]],
    ["tbody", {}, ["tr", {}, ["td", {}, "1"], ["td", { class: "to-right" }, "2"]]],
  ]);
  assert.equal(said(trees("- [x] done\n- [ ] not yet")[0]), "☑ done☐ not yet");
});

test("a code block is its text, whatever stands in it", () => {
  const [block] = trees("```html\n<script>alert(1)</script> &amp;\n```");
  const [pre] = [...every([block])].filter(([name]) => name === "pre");
  assert.equal(said(pre), "<script>alert(1)</script> &amp;");
});

const ATTACKS = [
  "<img src=x onerror=alert(1)>",
  "<script>alert(1)</script>",
  "<svg/onload=alert(1)>",
  "<iframe src='javascript:alert(1)'></iframe>",
  "<style>*{display:none}</style>",
  "<form action=/runs><input name=prompt></form>",
  "<a href=\"javascript:alert(1)\">x</a>",
  "<div style='position:fixed' class='approval'>Approve</div>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x) ![x](javascript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](java\nscript:alert(1))",
  "![x](\"onerror=alert(1))",
  "<!-- --><b onclick=alert(1)>x</b>",
  "`<img src=x>` <math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
  "| <img src=x onerror=alert(1)> |\n| --- |\n| <b>x</b> |",
];
const ELEMENTS = new Set("p h1 h2 h3 h4 h5 h6 em strong del code pre a img ul ol li blockquote hr br table thead tbody tr th td div span button".split(" "));
const ATTRIBUTES = new Set("href src alt loading rel target class start tabindex type onclick".split(" "));

for (const text of ATTACKS) {
  test(`nothing comes of ${JSON.stringify(text)}`, () => {
    for (const [name, attributes] of every(trees(text))) {
      assert.ok(ELEMENTS.has(name), name);
      for (const [key, value] of Object.entries(attributes)) {
        assert.ok(ATTRIBUTES.has(key), key);
        if (key === "onclick") assert.equal(typeof value, "function");
        if (key === "class") assert.match(value, /^(scroll|code|code-bar|quiet|foreign|to-(left|right|center))$/);
        if (key === "href") assert.match(new URL(value, BASE).protocol, /^(https?|mailto):$/);
        if (key === "src") assert.ok(isOwn(value, BASE), value);
      }
    }
  });
}

test("HTML is shown as the text it is", () => {
  assert.equal(trees("a <b onclick=x>b</b>").map(said).join(""), "a <b onclick=x>b</b>");
  assert.deepEqual(trees("a<br>b"), [["p", {}, "a", ["br", {}], "b"]]);
});

test("an image of another origin is a link that names the host, one of ours is shown", () => {
  const [[, , link]] = trees("![chart](https://evil.test/?d=secret)");
  assert.equal(link[0], "a");
  assert.equal(link[1].href, "https://evil.test/?d=secret");
  assert.equal(link[1].rel, "noopener noreferrer nofollow");
  assert.match(said(link), /^chart · .*evil\.test/);
  assert.equal([...every(trees("![x](//evil.test/a.png) ![y](http://127.0.0.1:7778/a.png)"))].filter(([name]) => name === "img").length, 0);
  assert.equal(trees("![x](runs/r/blobs/b)")[0][2][0], "img");
  assert.equal(trees("![x](data:image/png;base64,AAAA)")[0][2][0], "img");
  assert.notEqual(trees("![x](data:text/html,hi)")[0][2][0], "img");
});

test("character references are characters, in code they are not", () => {
  assert.equal(trees("&lt;b&gt; &amp;amp; &#65;&#x42; &unknown; `&lt;`").map(said).join(""), "<b> &amp; AB &unknown; &lt;");
});

const inlines = [
  ["a *b* c", ["a ", ["em", {}, "b"], " c"]],
  ["**a*b*c**", [["strong", {}, "a", ["em", {}, "b"], "c"]]],
  ["***a***", [["em", {}, ["strong", {}, "a"]]]],
  ["*a **b***", [["em", {}, "a ", ["strong", {}, "b"]]]],
  ["snake_case_name and _em_", ["snake_case_name and ", ["em", {}, "em"]]],
  ["2 * 3 * 4 **", ["2 * 3 * 4 **"]],
  ["**粗体**文字，**“引号”**后", [["strong", {}, "粗体"], "文字，", ["strong", {}, "“引号”"], "后"]],
  ["**unclosed and *half", ["**unclosed and *half"]],
  ["`a` ``b`c`` ` d", [["code", {}, "a"], " ", ["code", {}, "b`c"], " ` d"]],
  ["`*not*` \\*nor\\*", [["code", {}, "*not*"], " *nor*"]],
  ["[a *b*](http://x.y/(z)?q=1 \"t\") end", [["a", { href: "http://x.y/(z)?q=1" }, "a ", ["em", {}, "b"]], " end"]],
  ["[a](<b c>) [not] (x) [open", [["a", { href: "b c" }, "a"], " [not] (x) [open"]],
  ["[![i](a.png)](b)", [["a", { href: "b" }, ["img", { src: "a.png", alt: "i" }]]]],
  ["see https://a.b/c_d_e, (https://x.y).", ["see ", ["a", { href: "https://a.b/c_d_e" }, "https://a.b/c_d_e"], ", (", ["a", { href: "https://x.y" }, "https://x.y"], ")."]],
  ["网址https://a.b/c。完", ["网址", ["a", { href: "https://a.b/c" }, "https://a.b/c"], "。完"]],
  ["<https://a.b> <me@x.org>", [["a", { href: "https://a.b" }, "https://a.b"], " ", ["a", { href: "mailto:me@x.org" }, "me@x.org"]]],
  ["a  \nb\nc", ["a  ", ["br", {}], "b\nc"]],
];
for (const [text, wanted] of inlines) {
  test(`inline ${JSON.stringify(text)}`, () => assert.deepEqual(inline(text), wanted));
}

const blocks = [
  ["a\n===\nb\n---\nc", [["h1", {}, "a"], ["h2", {}, "b"], ["p", {}, "c"]]],
  ["a\n# b\nc\n***\nd", [["p", {}, "a"], ["h1", {}, "b"], ["p", {}, "c"], ["hr", {}], ["p", {}, "d"]]],
  ["## b ##\n#no", [["h2", {}, "b"], ["p", {}, "#no"]]],
  ["> a\nlazy\n> - b\n\nc", [["blockquote", {}, ["p", {}, "a\nlazy"], ["ul", {}, ["li", {}, "b"]]], ["p", {}, "c"]]],
  ["- a\n- b\n\n  c\n- d", [["ul", {}, ["li", {}, ["p", {}, "a"]], ["li", {}, ["p", {}, "b"], ["p", {}, "c"]], ["li", {}, ["p", {}, "d"]]]]],
  ["1. a\n   - b\n     - c\n2. d\n\ne", [["ol", {}, ["li", {}, "a", ["ul", {}, ["li", {}, "b", ["ul", {}, ["li", {}, "c"]]]]], ["li", {}, "d"]], ["p", {}, "e"]]],
  ["- a\n\n  ```sh\n  ls\n    -l\n  ```\n- b", [["ul", {}, ["li", {}, ["p", {}, "a"], ["code", { language: "sh" }, "ls\n  -l"]], ["li", {}, ["p", {}, "b"]]]]],
  ["* a\n- b", [["ul", {}, ["li", {}, "a"]], ["ul", {}, ["li", {}, "b"]]]],
  ["text\n- a\nlazy\n12) no", [["p", {}, "text"], ["ul", {}, ["li", {}, "a\nlazy"]], ["ol", { start: 12 }, ["li", {}, "no"]]]],
  ["~~~\n```\n~~~\nx", [["code", { language: "" }, "```"], ["p", {}, "x"]]],
  ["```py\nnever closed", [["code", { language: "py" }, "never closed"]]],
  ["| a\\|b | `c` |\n|:-:|---|\n| 1 |\n\nx", [
    ["table", {}, ["thead", {}, ["tr", {}, ["th", { class: "to-center" }, "a|b"], ["th", {}, ["code", {}, "c"]]]],
      ["tbody", {}, ["tr", {}, ["td", { class: "to-center" }, "1"], ["td", {}]]]],
    ["p", {}, "x"],
  ]],
  ["a | b\nc", [["p", {}, "a | b\nc"]]],
];
for (const [text, wanted] of blocks) {
  test(`block ${JSON.stringify(text)}`, () => assert.deepEqual(treesIn(text), wanted));
}

test("no text is lost and none takes long, however odd", () => {
  const odd = ["*a**", "[", "![", "`", "``a", "> ", "- ", "1. ", "|-", "~~", "_a", "\\", "<", "&#", "**x ", "[a](", "  - b\n", "\n\n", "```\n"];
  for (const one of odd) {
    const started = process.cpuUsage().user;
    const found = treesIn(one.repeat(4000));
    assert.ok(Array.isArray(found));
    assert.ok(process.cpuUsage().user - started < 3e6, `${one} took ${(process.cpuUsage().user - started) / 1e6} s`);
  }
  let seed = 11;
  const pick = () => odd[(seed = (seed * 16807) % 2147483647) % odd.length];
  for (let time = 0; time < 400; time += 1) {
    const text = Array.from({ length: 12 }, () => `${pick()}w${time} `).join("");
    const words = (value) => (value.match(/w\d+/g) ?? []).length;
    const flat = (tree) => (typeof tree === "string" ? tree : [tree[1].alt, tree[1].href, tree[1].language, ...tree.slice(2).map(flat)].filter(Boolean).join(" "));
    assert.ok(words(treesIn(text).map(flat).join(" ")) >= words(text) - 4, text);
  }
});
