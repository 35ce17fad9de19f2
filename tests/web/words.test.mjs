import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { seconds, tokens } from "../../src/headwater/web/static/app/format.js";
import { blank, isReadable, resolved, widgetOf } from "../../src/headwater/web/static/app/form.js";
import { keys, lang, t } from "../../src/headwater/web/static/app/i18n.js";
import { columnsOf, isExact, parsed, visible } from "../../src/headwater/web/static/app/value.js";

test("every word is there in both languages, with the same places to fill", () => {
  assert.deepEqual(keys("zh"), keys("en"));
  for (const key of keys("en")) {
    const places = (name) => {
      lang.value = name;
      return (t(key).match(/\{\w+\}/g) ?? []).sort();
    };
    assert.deepEqual(places("zh"), places("en"), key);
  }
});

test("every word that a view asks for exists, and every word is asked for", () => {
  const folder = new URL("../../src/headwater/web/static/app/", import.meta.url);
  const scripts = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".js"));
  const text = scripts.map((name) => readFileSync(new URL(name, folder), "utf8")).join("\n");
  const known = new Set(keys("en"));
  for (const [, key] of text.matchAll(/\bt\(\s*"([a-z]+\.[A-Za-z.]+)"/g)) {
    if (!/^(side|team|time|chart|events|replay|raw)\./.test(key)) assert.ok(known.has(key), key);
  }
  const families = [...text.matchAll(/`([a-z]+(?:\.[a-z]+)?\.)\$\{/g)].map(([, family]) => family);
  for (const key of known) {
    const isUsed = text.split(`"${key}"`).length > 3 || families.some((family) => key.startsWith(family));
    assert.ok(isUsed, `nobody says ${key}`);
  }
});

test("times and counts are short", () => {
  assert.deepEqual([0.0004, 0.25, 3.21, 42.4, 61, 3725].map(seconds), ["1 ms", "250 ms", "3.2 s", "42 s", "1:01 min", "1:02 h"]);
  assert.deepEqual([7, 999, 1234, 123456, 2_500_000].map(tokens), ["7", "999", "1.2k", "123k", "2.5M"]);
});

test("rows that are alike are a table, others are not", () => {
  assert.deepEqual(columnsOf([{ a: 1, b: 2 }, { a: 3 }]), ["a", "b"]);
  assert.deepEqual(columnsOf([{ a: 1 }, { b: 2 }, { c: 3 }]), []);
  assert.deepEqual(columnsOf([{ a: { b: 1 } }, { a: { b: 2 } }]), []);
  assert.deepEqual(columnsOf([1, 2]), []);
  assert.deepEqual(columnsOf([{ a: 1 }]), []);
});

test("characters that turn text around or hide are shown", () => {
  assert.equal(visible("pay \u202eadA\u0007 and\r\n\t\u202c 中文 👩‍💻"), "pay ⟨U+202E⟩adA⟨U+0007⟩ and\r\n\t⟨U+202C⟩ 中文 👩‍💻");
});

test("a number that a browser does not have exactly is known as such", () => {
  assert.equal(isExact(JSON.parse('{"id": [9007199254740991, 1.5, "x", null, true]}')), true);
  assert.equal(isExact(JSON.parse('{"id": [9007199254740993]}')), false);
});

test("text that is JSON is read, other text is not", () => {
  assert.deepEqual(parsed(' {"a": [1]}'), { a: [1] });
  for (const text of ["{a}", "plain", "12", '"x"', ""]) assert.equal(parsed(text), undefined);
});

const root = {
  $defs: { Place: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } },
  type: "object",
  properties: {
    city: { type: "string" },
    days: { type: "integer", default: 3 },
    unit: { enum: ["C", "F"] },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    home: { $ref: "#/$defs/Place", description: "Where." },
    tags: { type: "array", items: { type: "string" } },
    any: { anyOf: [{ type: "string" }, { type: "integer" }] },
    open: { type: "object", additionalProperties: { type: "integer" } },
    both: { type: ["number", "null"] },
  },
  required: ["city", "unit"],
};
const widget = (name) => widgetOf(resolved(root.properties[name], root));

test("each kind of argument has its field, what has none is JSON", () => {
  assert.deepEqual(
    Object.fromEntries(Object.keys(root.properties).map((name) => [name, widget(name)])),
    { city: "text", days: "number", unit: "choice", note: "text", home: "fields", tags: "list", any: "json", open: "json", both: "number" },
  );
  assert.equal(resolved(root.properties.home, root).description, "Where.");
  assert.equal(resolved(root.properties.note, root).nullable, true);
  assert.equal(widgetOf({}), "json");
});

test("a reference that goes in circles or nowhere ends", () => {
  const circle = { $defs: { a: { $ref: "#/$defs/a" } } };
  assert.equal(widgetOf(resolved({ $ref: "#/$defs/a" }, circle)), "json");
  assert.equal(widgetOf(resolved({ $ref: "#/nowhere" }, circle)), "json");
});

test("a first value fits its kind", () => {
  const first = (name) => blank(resolved(root.properties[name], root), root);
  assert.deepEqual([first("city"), first("days"), first("unit"), first("tags"), first("home")], ["", 3, "C", [], { name: "" }]);
  assert.deepEqual(blank(root, root), { city: "", unit: "C" });
});

test("plain values are readable, however deep", () => {
  assert.equal(isReadable({ a: [1, null, { b: "x" }] }), true);
});
