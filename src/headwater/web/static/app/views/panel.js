// The panel beside the conversation: when what happened, what it used, and the raw events.

import { useRef, useState } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals-core.js";
import { Scale, modelsOf, rowsOf, spent, stepOf } from "../figures.js";
import { oneLine, seconds, tokens } from "../format.js";
import { html } from "../html.js";
import { t } from "../i18n.js";
import { Icon } from "../icons.js";
import { lanes } from "../reducer.js";
import { store, stored } from "../stored.js";
import { Nothing, Rows, stepped, useNow, useSize } from "./beside.js";

/** @typedef {import("../state.js").AppState} AppState */

// -- timeline ------------------------------------------------------------------------------------------------------

// When what happened: a row a run, its model turns, and its tools, on one line of time.


/** @typedef {import("../gantt.js").Row} Row */
/** @typedef {import("../gantt.js").Bar} Bar */

const HEIGHT = 28; // of a row
const part = (/** @type {number} */ n) => `${(n * 100).toFixed(3)}%`;

/** @param {{state: AppState}} props */
export function Timeline({ state }) {
  const shown = state.current.value;
  const model = shown ? state.use(shown).model : null;
  const isLive = !!model && model.state === "running" && shown !== state.replayed.value;
  const now = useNow(model ?? { now: 0, events: 0 }, isLive);
  const [frame, width] = useSize();
  const [at, setAt] = useState(-1);
  if (!model?.root) return html`<div ref=${frame}><${Nothing} /></div>`;

  const rows = rowsOf(model);
  const scale = new Scale(model.root.segments.map((one) => ({ start: one.start, end: one.end || Math.max(now, one.start) })));
  const ticks = scale.ticks(Math.max(2, Math.floor((width * 0.6) / 60)));
  let rounds = 0;
  let tools = 0;
  for (const run of model.runs.values()) {
    rounds += run.rounds.length;
    tools += run.calls.size;
  }
  const pick = (/** @type {object} */ of) => (state.picked.value = of);
  const head = html`<div class="time-head" role="presentation">
    <div class="time-line">
      ${ticks.map((tick) => html`<span key=${tick.seconds} class="num" style=${{ left: part(tick.at) }}>${tick.seconds ? seconds(tick.seconds) : "0"}</span>`)}
    </div>
  </div>`;
  const row = (/** @type {number} */ n) => html`<${TimeRow} key=${rows[n].key} id=${`time-${n}`} row=${rows[n]} scale=${scale} now=${now}
    isHere=${n === at} picked=${state.picked.value} ticks=${ticks} pick=${(/** @type {object} */ of) => {
      setAt(n);
      pick(of);
    }} />`;
  return html`<div class="time" ref=${frame}>
    <p class="time-sum">${t("time.sum", { time: seconds(scale.seconds), rounds, tools })}</p>
    <${Rows} class="time-rows" count=${rows.length} height=${HEIGHT} row=${row} at=${at} head=${head} role="listbox" label=${t("panel.timeline")}
      active=${at >= 0 ? `time-${at}` : undefined} onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        const next = stepped(event.key, at, rows.length, 10);
        if (event.key === "Enter" && at >= 0) state.panel.value = "inspector";
        if (next < 0) return;
        event.preventDefault();
        setAt(next);
        pick(rows[next].bars.length === 1 ? rows[next].bars[0].of : rows[next].of);
      }} />
    <p class="legend" aria-hidden="true">
      <span><i class="bar is-ahead"></i>${t("time.ahead")}</span><span><i class="bar k-rounds"></i>${t("time.work")}</span>
      <span><i class="bar k-tool"></i>${t("time.tool")}</span><span><i class="bar k-tool is-waiting"></i>${t("time.waits")}</span>
    </p>
  </div>`;
}

/**
 * @param {{id: string, row: Row, scale: Scale, now: number, isHere: boolean, picked: object|null,
 *   ticks: import("../scale.js").Tick[], pick: (of: object) => void}} props
 */
function TimeRow({ id, row, scale, now, isHere, picked, ticks, pick }) {
  const worked = row.bars.filter((one) => one.look !== "waiting");
  const time = worked.reduce((sum, one) => sum + (one.end || now) - one.start, 0);
  const label = row.kind === "rounds" ? t("time.rounds") : row.label;
  return html`<div class=${`time-row k-${row.kind}${isHere ? " here" : ""}`} id=${id} role="option" aria-selected=${isHere}
    onClick=${() => pick(row.bars.length === 1 ? row.bars[0].of : row.of)}>
    <span class="time-label" style=${{ "--depth": row.depth }}>${label}</span>
    <span class="time-line" aria-hidden="true">
      ${ticks.map((tick) => html`<i class="tick" key=${tick.seconds} style=${{ left: part(tick.at) }}></i>`)}
      ${scale.pauses.map((one) => html`<i class="pause" key=${one.from} title=${t("time.waited", { time: seconds(one.seconds) })}
        style=${{ left: part(one.from), width: part(one.to - one.from) }}></i>`)}
      ${row.bars.map((bar, n) => html`<${BarView} key=${n} bar=${bar} row=${row} scale=${scale} now=${now} isPicked=${picked === bar.of} pick=${pick} />`)}
    </span>
    <span class="time-note num">${row.bars.length > 1 && html`<span class="sr">${row.bars.length} × </span>`}${worked.length ? seconds(time) : "…"}</span>
  </div>`;
}

/** @param {{bar: Bar, row: Row, scale: Scale, now: number, isPicked: boolean, pick: (of: object) => void}} props */
function BarView({ bar, row, scale, now, isPicked, pick }) {
  const from = scale.at(bar.start);
  const to = Math.max(from, scale.at(bar.end || now));
  const ahead = bar.first && to > from ? (scale.at(bar.first) - from) / (to - from) : bar.first || row.kind !== "rounds" ? 0 : 1;
  const name = row.kind === "rounds" ? t("time.turn", { n: bar.label }) : bar.label;
  const first = bar.first ? ` · ${t("time.first", { time: seconds(bar.first - bar.start) })}` : "";
  return html`<i class=${`bar k-${row.kind} is-${bar.look}${bar.end ? "" : " open"}${isPicked ? " is-picked" : ""}`}
    title=${`${name} · ${seconds((bar.end || now) - bar.start)}${first}`}
    style=${{ left: part(from), width: part(to - from), "--ahead": part(Math.min(1, ahead)) }}
    onClick=${(/** @type {MouseEvent} */ event) => {
      event.stopPropagation();
      pick(bar.of);
    }}></i>`;
}

// -- tokens --------------------------------------------------------------------------------------------------------

// How large the context is, what each turn used, and what that costs.


/** @typedef {import("../reducer.js").Run} Run */

/** @type {import("../../vendor/signals-core.js").Signal<Record<string, import("../spent.js").Price>>} */
const prices = signal(JSON.parse(stored("prices", "{}")));

/** @param {number} cost */
const money = (cost) => (cost >= 1 || cost === 0 ? cost.toFixed(2) : cost.toFixed(cost < 0.01 ? 5 : 4));

/** @param {{state: AppState}} props */
export function Charts({ state }) {
  const shown = state.current.value;
  const [chosen, choose] = useState("");
  if (!shown) return html`<${Nothing} />`;
  const { model } = state.use(shown);
  const all = lanes(model.root).filter((run) => run.rounds.length > 0);
  if (!all.length) return html`<${Nothing} />`;
  const run = all.find((one) => one.id === chosen) ?? all[0];
  state.use(run);
  return html`<div class="charts">
    ${all.length > 1 && html`<label class="stacked">${t("chart.member")}
      <select value=${run.id} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
        ${all.map((one) => html`<option key=${one.id} value=${one.id}>${"  ".repeat(one.depth)}${one.agent}</option>`)}
      </select>
    </label>`}
    <${Context} run=${run} />
    <${Turns} run=${run} />
    <${Spent} all=${all} model=${model} />
  </div>`;
}

const HIGH = 132;
const LEFT = 40;
const BASE = HIGH - 18;

/**
 * An empty chart with lines at round numbers.
 * @param {{label: string, most: number, children: (width: number, y: (n: number) => number) => any, count: number}} props
 */
function Chart({ label, most, count, children }) {
  const [ref, width] = useSize();
  const step = stepOf10(most / 3);
  const top = Math.max(step, Math.ceil(most / step) * step);
  const y = (/** @type {number} */ n) => BASE - (n / top) * (BASE - 8);
  const lines = [];
  for (let n = 0; n <= top; n += step) lines.push(n);
  return html`<div class="chart" ref=${ref}>
    ${width > 0 && html`<svg width=${width} height=${HIGH} role="img" aria-label=${label}>
      ${lines.map((n) => html`<g key=${n}><line class="grid" x1=${LEFT} x2=${width} y1=${y(n)} y2=${y(n)} /><text class="axis" x=${LEFT - 6} y=${y(n) + 4} text-anchor="end">${tokens(n)}</text></g>`)}
      <text class="axis" x=${LEFT} y=${HIGH - 3}>1</text>
      ${count > 1 && html`<text class="axis" x=${width - 2} y=${HIGH - 3} text-anchor="end">${count}</text>`}
      ${children(width, y)}
    </svg>`}
  </div>`;
}

/** A 1, 2 or 5 with zeros that is at least this. @param {number} least */
function stepOf10(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return power * stepOf(Math.min(10, Math.max(1, least / power)));
}

/** @param {{run: Run}} props */
function Context({ run }) {
  const sizes = run.context;
  const last = sizes.at(-1);
  if (!last) return null;
  const most = Math.max(...sizes.map((one) => Math.max(one.tokens, one.tokensBefore)));
  const summary = last.limit
    ? t("chart.contextOf", { n: tokens(last.tokens), part: `${Math.round((100 * last.tokens) / last.limit)} %`, limit: tokens(last.limit) })
    : t("chart.contextNow", { n: tokens(last.tokens) });
  return html`<section>
    <h2>${t("chart.context")} <span class="muted">${summary} · ${t("chart.messages", { n: last.messages })}</span></h2>
    <${Chart} label=${`${t("chart.estimate")}: ${summary}`} most=${most} count=${sizes.length}>
      ${(/** @type {number} */ width, /** @type {(n: number) => number} */ y) => {
        const wide = (width - LEFT) / sizes.length;
        const x = (/** @type {number} */ n) => LEFT + n * wide;
        const line = sizes.map((one, n) => `${n ? "L" : "M"}${x(n).toFixed(1)} ${y(one.tokens).toFixed(1)}H${x(n + 1).toFixed(1)}`).join("");
        return html`
          <path class="area" d=${`${line}V${BASE}H${LEFT}Z`} /><path class="curve" d=${line} />
          ${last.limit > 0 && last.limit <= most * 1.5 && html`<line class="limit" x1=${LEFT} x2=${width} y1=${y(last.limit)} y2=${y(last.limit)} />`}
          ${sizes.map((one, n) => one.compressed && html`<g key=${n}><title>${t("chart.squeezed", { n: tokens(one.tokensBefore) })}</title>
            <line class="squeezed" x1=${x(n)} x2=${x(n)} y1=${y(one.tokensBefore)} y2=${y(one.tokens)} /><circle class="squeezed" cx=${x(n)} cy=${y(one.tokens)} r="3" /></g>`)}
        `;
      }}
    </${Chart}>
  </section>`;
}

/** @param {{run: Run}} props */
function Turns({ run }) {
  const turns = run.rounds;
  const most = Math.max(1, ...turns.map((one) => (one.usage ? one.usage.input + one.usage.output : 0)));
  const isTold = turns.some((one) => one.usage);
  return html`<section>
    <h2>${t("chart.turns")}</h2>
    ${!isTold && html`<p class="muted">${t("chart.noUsage")}</p>`}
    ${isTold && html`<${Chart} label=${t("chart.turns")} most=${most} count=${turns.length}>
      ${(/** @type {number} */ width, /** @type {(n: number) => number} */ y) => {
        const wide = (width - LEFT) / turns.length;
        return turns.map((one, n) => {
          if (!one.usage) return null;
          const { input, cached, output, reasoning } = one.usage;
          let sum = 0;
          const stacked = [["cached", cached], ["input", input - cached], ["reasoning", reasoning], ["output", output - reasoning]];
          return html`<g key=${one.key}><title>${t("chart.round", { n: one.n, input: tokens(input), output: tokens(output) })}</title>
            ${stacked.map(([name, count]) => {
              const low = y(sum);
              sum += Math.max(0, Number(count));
              return html`<rect key=${name} class=${`use u-${name}`} x=${LEFT + n * wide + Math.min(2, wide * 0.15)} width=${Math.max(0.6, Math.min(48, wide - Math.min(4, wide * 0.3)))} y=${y(sum)} height=${Math.max(0, low - y(sum))} />`;
            })}
          </g>`;
        });
      }}
    </${Chart}>
    <p class="legend" aria-hidden="true">${["input", "cached", "output", "reasoning"].map((name) => html`<span key=${name}><i class=${`use u-${name}`}></i>${t(`chart.${name}`)}</span>`)}</p>`}
  </section>`;
}

/** @param {{all: Run[], model: import("../reducer.js").Model}} props */
function Spent({ all, model }) {
  const rows = all.map((run) => ({ run, used: spent(run.rounds, prices.value) }));
  const total = spent(all.flatMap((run) => run.rounds), prices.value);
  const isPriced = Object.keys(prices.value).length > 0;
  const cells = (/** @type {import("../spent.js").Spent} */ { turns, usage, cost }) => html`
    <td>${turns}</td><td>${tokens(usage.input)}</td><td class="muted">${tokens(usage.cached)}</td><td>${tokens(usage.output)}</td><td class="muted">${tokens(usage.reasoning)}</td>
    ${isPriced && html`<td>${cost === null ? "–" : money(cost)}</td>`}`;
  return html`<section>
    <h2>${t("chart.spent")}</h2>
    <div class="scroll" tabindex="0" role="region" aria-label=${t("chart.spent")}><table class="used num">
      <thead><tr>${["member", "count", "input", "cached", "output", "reasoning", ...(isPriced ? ["cost"] : [])].map((name) => html`<th key=${name} scope="col">${t(`chart.${name}`)}</th>`)}</tr></thead>
      <tbody>${rows.map(({ run, used }) => html`<tr key=${run.id}><th scope="row" style=${{ "--depth": run.depth }}>${run.agent}</th>${cells(used)}</tr>`)}</tbody>
      ${all.length > 1 && html`<tfoot><tr><th scope="row">${t("chart.total")}</th>${cells(total)}</tr></tfoot>`}
    </table></div>
    <details class="prices"><summary>${t("chart.prices")}</summary>
      ${modelsOf(model).map((name) => html`<${Prices} key=${name} name=${name} />`)}
      <p class="hint">${t("chart.pricesHint")}</p>
    </details>
  </section>`;
}

/** @param {{name: string}} props of a model */
function Prices({ name }) {
  const price = prices.value[name];
  const set = (/** @type {string} */ what, /** @type {string} */ text) => {
    const given = text.trim() === "" ? null : Number(text);
    if (given !== null && !(given >= 0)) return;
    const next = { input: 0, cached: null, output: 0, ...price, [what]: given ?? (what === "cached" ? null : 0) };
    const { [name]: _, ...others } = prices.value;
    prices.value = next.input || next.output ? { ...others, [name]: next } : others;
    store("prices", Object.keys(prices.value).length ? JSON.stringify(prices.value) : "");
  };
  return html`<fieldset><legend>${name || "–"}</legend>
    ${/** @type {const} */ (["input", "cached", "output"]).map((what) => html`<label class="stacked" key=${what}>${t(`chart.${what}`)}
      <input type="number" min="0" step="any" inputmode="decimal" value=${price?.[what] ?? ""} onChange=${(/** @type {any} */ event) => set(what, event.target.value)} /></label>`)}
  </fieldset>`;
}

// -- events --------------------------------------------------------------------------------------------------------

// The raw events: found by type, run and text, one of them in full, copied or saved as JSON lines.



const FAMILIES = ["run", "reason", "context", "action", "tool", "plan", "hitl", "node", "handoff", "custom"];
const isDelta = (/** @type {string} */ type) => type === "reason.delta" || type === "reason.call";

/** The text of an event, for searching. @type {WeakMap<object, string>} */
const texts = new WeakMap();
/** @param {any} event */
function textOf(event) {
  let text = texts.get(event);
  if (text === undefined) texts.set(event, (text = JSON.stringify(event).toLowerCase()));
  return text;
}

/** What an event says, on one line. @param {any} event */
export function gist(event) {
  switch (event.type) {
    case "reason.delta": return event.text || event.chat_type.toLowerCase().replaceAll("_", " ");
    case "reason.call": return `${event.tool_name || ""} ${event.args || ""}`;
    case "reason.start": return event.model;
    case "reason.mode": return event.mode.toLowerCase();
    case "reason.end": return [event.finish_reason, event.usage && `${event.usage.input_tokens} + ${event.usage.output_tokens}`].filter(Boolean).join(" · ");
    case "context.size": return `${event.token_count} / ${event.context_length || "?"}`;
    case "tool.start": return `${event.tool_name} ${JSON.stringify(event.args ?? {})}`;
    case "tool.end": return `${event.tool_name ?? ""} ${event.status} ${event.error?.message ?? event.text ?? ""}`;
    case "tool.progress": return JSON.stringify(event.data ?? null);
    case "run.start": return event.resumed ? "resumed" : event.input?.map((/** @type {any} */ one) => one.parts?.map((/** @type {any} */ part) => part.text ?? "").join("") ?? "").join(" ");
    case "run.end": return [event.outcome, event.error?.message].filter(Boolean).join(" · ");
    case "node.start": case "node.end": return [event.member, event.outcome].filter(Boolean).join(" · ");
    case "handoff": return `${event.from} → ${event.to}`;
    case "custom": return `${event.name} ${JSON.stringify(event.data ?? null)}`;
    case "plan": return `${event.stage.toLowerCase()} ${event.index}/${event.steps.length}`;
    case "hitl.pending": return (event.tasks ?? []).map((/** @type {any} */ task) => task.tool_name).join(", ");
    case "hitl.decided": return event.decision;
    default: return "";
  }
}

/** Whether an event is about what is picked in another view. @param {any} event @param {any} of */
function isAbout(event, of) {
  switch (of.type) {
    case "run": return event.origin.run_id === of.id;
    case "round": return event.origin.run_id === of.run.id && event.round === of.n;
    case "call": return event.call_id === of.id && event.origin.run_id === of.run.id;
    case "block": return event.block_id === of.id;
    default: return true;
  }
}

/** @param {any} of */
const nameOf = (of) => (of.type === "round" ? t("time.turn", { n: of.n }) : of.name ?? of.agent ?? of.kind ?? "");

/** @param {{state: AppState}} props */
export function Inspector({ state }) {
  const shown = state.current.value;
  const [family, setFamily] = useState("");
  const [runId, setRun] = useState("");
  const [words, setWords] = useState("");
  const [hasDeltas, setDeltas] = useState(true);
  const [at, setAt] = useState(-1);
  const [copied, setCopied] = useState(false);
  const kept = useRef({ key: "", log: /** @type {any[]} */ ([]), upto: 0, found: /** @type {any[]} */ ([]), of: /** @type {any} */ (null) });
  if (!shown) return html`<${Nothing} />`;
  const { model, log } = state.use(shown);
  const of = /** @type {any} */ (state.picked.value);

  const key = JSON.stringify([family, runId, words, hasDeltas]);
  const now = kept.current;
  if (now.key !== key || now.log !== log || now.of !== of) kept.current = { key, log, upto: 0, found: [], of };
  const { found } = kept.current;
  const needle = words.trim().toLowerCase();
  for (; kept.current.upto < log.length; kept.current.upto += 1) {
    const event = log[kept.current.upto];
    if (!hasDeltas && isDelta(event.type)) continue;
    if (family && event.type.split(".")[0] !== family) continue;
    if (runId && event.origin.run_id !== runId) continue;
    if (of && !isAbout(event, of)) continue;
    if (needle && !textOf(event).includes(needle)) continue;
    found.push(event);
  }
  const chosen = found[at];
  const agentOf = (/** @type {any} */ event) => event.origin.agent;
  const isTree = model.runs.size > 1;
  const lines = () => found.map((event) => JSON.stringify(event)).join("\n") + (found.length ? "\n" : "");
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines()], { type: "application/x-ndjson" }));
    link.download = `${shown.id}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  const copy = async () => {
    await navigator.clipboard.writeText(lines());
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  const row = (/** @type {number} */ n) => {
    const event = found[n];
    const [kind] = event.type.split(".");
    return html`<div key=${event.seq} id=${`raw-${n}`} class=${`raw-row k-${kind}${n === at ? " here" : ""}`} role="option" aria-selected=${n === at}
      aria-setsize=${found.length} aria-posinset=${n + 1} onClick=${() => setAt(n === at ? -1 : n)}>
      <span class="raw-seq num">${event.seq}</span><span class="raw-time num">${(event.ts - model.start).toFixed(2)}</span>
      <span class="raw-type">${event.type}</span>${isTree && html`<span class="raw-run">${agentOf(event)}</span>`}
      <span class="raw-gist">${oneLine(gist(event))}</span>
    </div>`;
  };
  return html`<div class="inspector">
    <div class="filters">
      <input type="search" aria-label=${t("raw.filter")} placeholder=${t("raw.filter")} value=${words} onInput=${(/** @type {any} */ event) => {
        setWords(event.target.value);
        setAt(-1);
      }} />
      <select aria-label=${t("raw.type")} value=${family} onChange=${(/** @type {any} */ event) => setFamily(event.target.value)}>
        <option value="">${t("raw.type")}</option>${FAMILIES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
      </select>
      ${isTree && html`<select aria-label=${t("raw.run")} value=${runId} onChange=${(/** @type {any} */ event) => setRun(event.target.value)}>
        <option value="">${t("raw.run")}</option>${lanes(model.root).map((run) => html`<option key=${run.id} value=${run.id}>${"  ".repeat(run.depth)}${run.agent}</option>`)}
      </select>`}
      <label class="check"><input type="checkbox" checked=${hasDeltas} onChange=${(/** @type {any} */ event) => setDeltas(event.target.checked)} />${t("raw.deltas")}</label>
    </div>
    ${of && html`<p class="picked"><span>${t("raw.picked")}: <b>${nameOf(of)}</b></span>
      <button type="button" class="quiet" aria-label=${t("app.close")} onClick=${() => (state.picked.value = null)}><${Icon} name="x" /></button></p>`}
    ${found.length
      ? html`<${Rows} class="raw-rows" count=${found.length} height=${HEIGHT} row=${row} at=${at} follow=${at < 0} role="listbox" label=${t("raw.list")}
          active=${at >= 0 ? `raw-${at}` : undefined} onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
            const next = stepped(event.key, at, found.length, 15);
            if (next < 0) return;
            event.preventDefault();
            setAt(next);
          }} />`
      : html`<p class="nothing">${t("raw.nothing")}</p>`}
    ${chosen && html`<section class="raw-one" aria-label=${t("raw.one", { n: chosen.seq })}>
      <h2>${chosen.type} <span class="muted num">${chosen.seq}${chosen.duration ? ` · ${seconds(chosen.duration)}` : ""}</span>
        <button type="button" class="quiet" aria-label=${t("app.close")} onClick=${() => setAt(-1)}><${Icon} name="x" /></button></h2>
      <pre class="raw" tabindex="0">${JSON.stringify(chosen, null, 2)}</pre>
    </section>`}
    <div class="raw-foot">
      <span class="muted num grow" role="status">${t("raw.count", { n: found.length, all: log.length })}</span>
      <button type="button" class="quiet" disabled=${!found.length} onClick=${copy}>
        <${Icon} name=${copied ? "check" : "copy"} /><span class="words">${t(copied ? "copy.done" : "raw.copy")}</span></button>
      <button type="button" class="quiet" disabled=${!found.length} onClick=${save}><${Icon} name="down" /><span class="words">${t("raw.save")}</span></button>
    </div>
  </div>`;
}
