// What stands beside the conversation: a team's members in lanes, and a log file as if it happened now. And what these
// views and those of the panel share: words, rows that are drawn only where they are seen, the time.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { batch, signal } from "../../vendor/signals-core.js";
import { parseLog } from "../figures.js";
import { seconds, tokens } from "../format.js";
import { html } from "../html.js";
import { add, t } from "../i18n.js";
import { Icon, Spinner } from "../icons.js";
import { lanes } from "../reducer.js";
import { RunItems } from "./conversation.js";

/** @typedef {import("../state.js").AppState} AppState */

add({
  en: {
    "side.none": "Nothing yet: begin a conversation, or drop a log file here.",
    "team.none": "No member is at work.",
    "team.tabs": "Members",
    "team.round": "round {n}",
    "team.narrow": "Make narrow",
    "team.wide": "Make wide",
    "time.rounds": "model turns",
    "time.sum": "{time} at work · {rounds} turns · {tools} calls",
    "time.waited": "waited for {time}",
    "time.turn": "Turn {n}",
    "time.first": "first token after {time}",
    "time.work": "model at work",
    "time.ahead": "before the first token",
    "time.tool": "tool",
    "time.waits": "waits for a person",
    "chart.context": "Context",
    "chart.contextOf": "{n} tokens now, {part} of {limit}",
    "chart.contextNow": "{n} tokens now",
    "chart.messages": "{n} messages",
    "chart.squeezed": "made smaller, from {n}",
    "chart.estimate": "Estimated tokens of each request",
    "chart.turns": "Tokens of each turn",
    "chart.spent": "Used",
    "chart.member": "Member",
    "chart.count": "Turns",
    "chart.input": "Input",
    "chart.cached": "Cached",
    "chart.output": "Output",
    "chart.reasoning": "Thinking",
    "chart.cost": "Cost",
    "chart.total": "Total",
    "chart.prices": "Prices of a million tokens",
    "chart.pricesHint": "Kept in this browser only.",
    "chart.noUsage": "The model has told no usage yet.",
    "chart.round": "Turn {n}: {input} in, {output} out",
    "raw.filter": "Search in the events",
    "raw.type": "Type",
    "raw.run": "Run",
    "raw.deltas": "Deltas",
    "raw.list": "Events",
    "raw.count": "{n} of {all}",
    "raw.copy": "Copy as JSONL",
    "raw.save": "Download",
    "raw.one": "Event {n}",
    "raw.nothing": "No event fits.",
    "raw.picked": "Only what is picked",
    "replay.title": "Replay",
    "replay.play": "Play",
    "replay.pause": "Pause",
    "replay.again": "Play from the beginning",
    "replay.speed": "Speed",
    "replay.at": "Position",
    "replay.run": "Run",
    "replay.end": "Show all at once",
    "replay.close": "Close the replay",
    "replay.bad": "{n} lines are no event",
    "replay.none": "There are no events in this file: it should hold JSON lines, as --format jsonl writes them.",
  },
  zh: {
    "side.none": "暂无内容：开始对话，或把日志文件拖到这里。",
    "team.none": "没有成员在工作。",
    "team.tabs": "成员",
    "team.round": "第 {n} 轮",
    "team.narrow": "收窄",
    "team.wide": "展开",
    "time.rounds": "模型轮次",
    "time.sum": "工作 {time} · {rounds} 轮 · {tools} 次调用",
    "time.waited": "等待了 {time}",
    "time.turn": "第 {n} 轮",
    "time.first": "{time} 后出现首个令牌",
    "time.work": "模型工作",
    "time.ahead": "首个令牌之前",
    "time.tool": "工具",
    "time.waits": "等待人工",
    "chart.context": "上下文",
    "chart.contextOf": "现有 {n} 令牌，占 {limit} 的 {part}",
    "chart.contextNow": "现有 {n} 令牌",
    "chart.messages": "{n} 条消息",
    "chart.squeezed": "由 {n} 压缩而来",
    "chart.estimate": "每次请求的估计令牌数",
    "chart.turns": "每轮的令牌",
    "chart.spent": "用量",
    "chart.member": "成员",
    "chart.count": "轮次",
    "chart.input": "输入",
    "chart.cached": "缓存",
    "chart.output": "输出",
    "chart.reasoning": "思考",
    "chart.cost": "费用",
    "chart.total": "合计",
    "chart.prices": "每百万令牌的价格",
    "chart.pricesHint": "只保存在此浏览器中。",
    "chart.noUsage": "模型尚未报告用量。",
    "chart.round": "第 {n} 轮：输入 {input}，输出 {output}",
    "raw.filter": "在事件中搜索",
    "raw.type": "类型",
    "raw.run": "运行",
    "raw.deltas": "增量",
    "raw.list": "事件",
    "raw.count": "{n} / {all}",
    "raw.copy": "复制为 JSONL",
    "raw.save": "下载",
    "raw.one": "事件 {n}",
    "raw.nothing": "没有符合的事件。",
    "raw.picked": "仅所选内容",
    "replay.title": "回放",
    "replay.play": "播放",
    "replay.pause": "暂停",
    "replay.again": "从头播放",
    "replay.speed": "速度",
    "replay.at": "位置",
    "replay.run": "运行",
    "replay.end": "全部显示",
    "replay.close": "关闭回放",
    "replay.bad": "{n} 行不是事件",
    "replay.none": "文件中没有事件：它应为 --format jsonl 写出的 JSON 行。",
  },
});

/** How wide and high an element is. @returns {[{current: any}, number, number]} a ref for it, its width, its height */
export function useSize() {
  const ref = useRef(/** @type {HTMLElement|null} */ (null));
  const [size, set] = useState([0, 0]);
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (ref.current);
    const observer = new ResizeObserver(() => set([element.clientWidth, element.clientHeight]));
    observer.observe(element);
    set([element.clientWidth, element.clientHeight]);
    return () => observer.disconnect();
  }, []);
  return [ref, size[0], size[1]];
}

/** Whether a media query holds. @param {string} query */
export function useMedia(query) {
  const [holds, set] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = () => set(list.matches);
    list.addEventListener("change", changed);
    changed();
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return holds;
}

/**
 * The time of a run that goes on, in the server's clock: that of its last event, and what has passed here since.
 * @param {{now: number, events: number}} model @param {boolean} isLive
 */
export function useNow(model, isLive) {
  const [, tick] = useState(0);
  const seen = useRef({ events: -1, at: 0 });
  if (seen.current.events !== model.events) seen.current = { events: model.events, at: performance.now() };
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, [isLive]);
  return isLive ? model.now + (performance.now() - seen.current.at) / 1000 : model.now;
}

/**
 * A list of rows of one height, of which only those are drawn that are seen.
 * @param {{count: number, height: number, row: (at: number) => any, follow?: boolean, at?: number, role?: string,
 *   label?: string, class?: string, active?: string, onKeyDown?: (event: KeyboardEvent) => void, head?: any}} props
 *   `at` is the row to bring into view when it changes; `follow`: stay at the end while it grows
 */
export function Rows({ count, height, row, follow = false, at = -1, role, label, class: more = "", active, onKeyDown, head }) {
  const [ref, , seen] = useSize();
  const [top, setTop] = useState(0);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const element = ref.current;
    if (follow && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [count, seen]);
  useLayoutEffect(() => {
    const element = ref.current;
    if (at < 0) return;
    const from = at * height;
    const room = element.clientHeight - (element.firstElementChild?.offsetHeight ?? 0) * (head ? 1 : 0);
    if (from < element.scrollTop) element.scrollTop = from;
    else if (from + height > element.scrollTop + room) element.scrollTop = from + height - room;
  }, [at]);
  const first = Math.max(0, Math.floor(top / height) - 8);
  const last = Math.min(count, Math.ceil((top + (seen || 400)) / height) + 8);
  const drawn = [];
  for (let n = first; n < last; n += 1) drawn.push(row(n));
  return html`<div class=${`rows ${more}`} ref=${ref} role=${role} aria-label=${label} tabindex="0" aria-activedescendant=${at >= first && at < last ? active : undefined}
    onKeyDown=${onKeyDown} onScroll=${(/** @type {any} */ event) => {
      const element = event.currentTarget;
      isAtEnd.current = element.scrollHeight - element.clientHeight - element.scrollTop < height * 2;
      setTop(element.scrollTop);
    }}>
    ${head}
    <div class="rows-all" role="presentation" style=${{ height: `${count * height}px` }}>
      <div class="rows-seen" role="presentation" style=${{ top: `${first * height}px` }}>${drawn}</div>
    </div>
  </div>`;
}

/** Where the arrow keys lead in a list. @param {string} key @param {number} at @param {number} count @param {number} page */
export function stepped(key, at, count, page) {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count }[key];
  return step === undefined || !count ? -1 : Math.max(0, Math.min(count - 1, at + step));
}

/** What is shown where there is nothing. */
export const Nothing = () => html`<p class="nothing">${t("side.none")}</p>`;

// -- lanes ---------------------------------------------------------------------------------------------------------

// A team's members side by side: a column each, or a tab each where the window is narrow. Inner teams lie lower.


/** @typedef {import("../reducer.js").Run} Run */

const MANY = 5; // of more members those that are done get out of the way

/** @param {{state: AppState}} props */
export function Team({ state }) {
  const shown = state.current.value;
  const isNarrow = useMedia("(max-width: 900px)");
  const [chosen, choose] = useState("");
  const [folded, setFolded] = useState(/** @type {Record<string, boolean>} */ ({}));
  if (!shown) return html`<${Nothing} />`;
  const { model } = state.use(shown);
  // A team that only passes work on has nothing to say itself: its members have.
  const all = lanes(model.root).filter((run) => run !== model.root && (run.kind !== "team" || run.rounds.length > 0 || !run.children.length));
  if (!all.length) return html`<p class="nothing">${t("team.none")}</p>`;
  if (isNarrow) return html`<${Tabs} all=${all} chosen=${chosen} choose=${choose} state=${state} rootId=${shown.id} />`;
  return html`<div class="lanes">
    ${all.map((run) => {
      const isFolded = folded[run.id] ?? (all.length > MANY && run.state === "ended");
      return html`<section key=${run.id} class=${`lane${isFolded ? " slim" : ""}${run.state === "ended" ? " over" : ""}`} style=${{ "--depth": run.depth - 1 }}
        aria-label=${run.path.slice(1).join(" › ")} data-lane=${run.agent}>
        <${Head} run=${run} state=${state} isFolded=${isFolded} fold=${() => setFolded({ ...folded, [run.id]: !isFolded })} />
        ${!isFolded && html`<${Body} run=${run} rootId=${shown.id} state=${state} />`}
      </section>`;
    })}
  </div>`;
}

/** @type {Record<string, [string, string]>} */
const ENDS = { completed: ["check", "ok"], failed: ["x", "bad"], suspended: ["hand", "accent"], limit: ["alert", "warn"] };

/** @param {{run: Run}} props */
function State({ run }) {
  if (!run.outcome) return html`<span class="status-icon accent"><${Spinner} /></span>`;
  const [icon, tone] = ENDS[run.outcome] ?? ["stop", ""];
  return html`<span class=${`status-icon ${tone}`}><${Icon} name=${icon} /></span>`;
}

/** @param {Run} run */
function facts(run) {
  const time = run.segments.reduce((sum, one) => sum + (one.end ? one.end - one.start : 0), 0);
  const round = run.rounds.at(-1)?.n;
  return [
    run.outcome && run.outcome !== "completed" ? t(`end.${run.outcome}`) : "",
    round && !run.outcome ? t("team.round", { n: round }) : "",
    time ? seconds(time) : "",
    run.usage.total ? t("chat.tokens", { n: tokens(run.usage.total) }) : "",
  ].filter(Boolean).join(" · ");
}

/** @param {{run: Run, state: AppState, isFolded: boolean, fold: () => void}} props */
function Head({ run, state, isFolded, fold }) {
  state.use(run);
  return html`<button type="button" class="lane-head" aria-expanded=${!isFolded} title=${t(isFolded ? "team.wide" : "team.narrow")} onClick=${fold}>
    <${State} run=${run} />
    <span class="lane-name">${run.depth > 1 && html`<small>${run.path.slice(1, -1).join(" › ")} ›</small>`}${run.agent}</span>
    ${!isFolded && html`<span class="lane-facts">${facts(run)}</span>`}
  </button>`;
}

/** @param {{run: Run, rootId: string, state: AppState}} props */
function Body({ run, rootId, state }) {
  state.use(run);
  const frame = useRef(/** @type {HTMLElement|null} */ (null));
  const inner = useRef(/** @type {HTMLElement|null} */ (null));
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (frame.current);
    let isAtEnd = true;
    const scrolled = () => (isAtEnd = element.scrollHeight - element.clientHeight - element.scrollTop < 40);
    const grown = new ResizeObserver(() => {
      if (isAtEnd) element.scrollTop = element.scrollHeight;
    });
    grown.observe(/** @type {Element} */ (inner.current));
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => grown.disconnect();
  }, []);
  return html`<div class="lane-body" ref=${frame} tabindex="0" role="region" aria-label=${run.agent}>
    <div class="lane-items" ref=${inner}><${RunItems} run=${run} rootId=${rootId} /></div>
  </div>`;
}

/** @param {{all: Run[], chosen: string, choose: (id: string) => void, state: AppState, rootId: string}} props */
function Tabs({ all, chosen, choose, state, rootId }) {
  const list = useRef(/** @type {HTMLElement|null} */ (null));
  useLayoutEffect(() => list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" }));
  const here = all.find((run) => run.id === chosen) ?? all.findLast((run) => run.state !== "ended") ?? /** @type {Run} */ (all.at(-1));
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = all[(all.indexOf(here) + step + all.length) % all.length];
    choose(next.id);
    /** @type {any} */ (list.current?.children[all.indexOf(next)])?.focus();
  };
  return html`<div class="lane-tabs">
    <div role="tablist" aria-label=${t("team.tabs")} ref=${list} onKeyDown=${onKeyDown}>
      ${all.map((run) => html`<${Tab} key=${run.id} run=${run} state=${state} isHere=${run === here} choose=${choose} />`)}
    </div>
    <section key=${here.id} class="lane" role="tabpanel" id="lane-panel" aria-labelledby=${`lane-${here.id}`} data-lane=${here.agent}>
      <${Body} run=${here} rootId=${rootId} state=${state} />
    </section>
  </div>`;
}

/** @param {{run: Run, state: AppState, isHere: boolean, choose: (id: string) => void}} props */
function Tab({ run, state, isHere, choose }) {
  state.use(run);
  return html`<button type="button" role="tab" id=${`lane-${run.id}`} aria-selected=${isHere} aria-controls="lane-panel" tabindex=${isHere ? 0 : -1}
    style=${{ "--depth": run.depth - 1 }} onClick=${() => choose(run.id)}>
    <${State} run=${run} />${run.depth > 1 ? "› " : ""}${run.agent}
  </button>`;
}

// -- replay --------------------------------------------------------------------------------------------------------

// A log file as if it happened now: read from a file, shown at once, and played again as fast as one likes.



const SPEEDS = [0.5, 1, 2, 5, 10, 50];
const LONGEST = 2; // seconds of a log in which nothing happened, at any speed: nobody watches a pause

/** @type {import("../../vendor/signals-core.js").Signal<Map<string, any[]>>} */
const logs = signal(new Map());
const name = signal("");
const bad = signal(0);
const speed = signal(1);
const isPlaying = signal(false);
/** How many events of the log are shown. */
const position = signal(0);

/** Read a file and show it. Raises an error with a sentence for people. @param {File} file @param {AppState} state */
export async function open(file, state) {
  const read = parseLog(await file.text());
  if (!read.runs.size) throw new Error(t("replay.none"));
  batch(() => {
    logs.value = read.runs;
    name.value = file.name;
    bad.value = read.bad;
    const [longest] = [...read.runs].sort((a, b) => b[1].length - a[1].length)[0];
    choose(longest, state);
  });
}

/** @param {string} root @param {AppState} state */
function choose(root, state) {
  const events = /** @type {any[]} */ (logs.peek().get(root));
  const shown = new state.Shown(root, { agent: events[0].origin.agent });
  shown.badge.value = "ended";
  isPlaying.value = false;
  shown.reset(events);
  position.value = events.length;
  state.picked.value = null;
  state.replayed.value = shown;
}

/** Show the first `count` events. @param {import("../state.js").Shown} shown @param {number} count */
function seek(shown, count) {
  const events = /** @type {any[]} */ (logs.peek().get(shown.id));
  if (count < position.peek()) shown.reset(events.slice(0, count));
  else for (let at = position.peek(); at < count; at += 1) shown.feed(events[at], true);
  position.value = count;
}

/** @param {import("../state.js").Shown} shown */
function usePlayer(shown) {
  const clock = useRef(0);
  useEffect(() => {
    if (!isPlaying.value) return undefined;
    const events = /** @type {any[]} */ (logs.peek().get(shown.id));
    let due = 0; // seconds of the log that may still be shown
    let before = performance.now();
    const step = () => {
      const now = performance.now();
      due += ((now - before) / 1000) * speed.peek();
      before = now;
      let at = position.peek();
      while (at < events.length) {
        const wait = at ? Math.min(LONGEST, Math.max(0, events[at].ts - events[at - 1].ts)) : 0;
        if (wait > due) break;
        due -= wait;
        at += 1;
      }
      if (at > position.peek()) seek(shown, at);
      if (at >= events.length) isPlaying.value = false;
      else clock.current = requestAnimationFrame(step);
    };
    clock.current = requestAnimationFrame(step);
    return () => cancelAnimationFrame(clock.current);
  }, [isPlaying.value, shown]);
}

/** @param {{state: AppState}} props */
export function Replay({ state }) {
  const shown = state.replayed.value;
  return shown && logs.value.has(shown.id) && html`<${Player} key=${shown.id} state=${state} shown=${shown} />`;
}

/** @param {{state: AppState, shown: import("../state.js").Shown}} props */
function Player({ state, shown }) {
  usePlayer(shown);
  const events = /** @type {any[]} */ (logs.value.get(shown.id));
  const at = position.value;
  const isOver = at >= events.length;
  const toggle = () => {
    if (!isPlaying.value && isOver) seek(shown, 0);
    isPlaying.value = !isPlaying.value;
  };
  const label = t(isPlaying.value ? "replay.pause" : isOver ? "replay.again" : "replay.play");
  const time = at ? events[at - 1].ts - events[0].ts : 0;
  return html`<div class="replay" role="group" aria-label=${t("replay.title")}>
    <button type="button" class="quiet" aria-label=${label} title=${label} onClick=${toggle}>
      <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${isPlaying.value ? "M5.5 3.5v9M10.5 3.5v9" : "m5 3 7.5 5L5 13z"} /></svg>
    </button>
    <b class="replay-name" title=${name.value}>${name.value}</b>
    ${logs.value.size > 1 && html`<select aria-label=${t("replay.run")} value=${shown.id} onChange=${(/** @type {any} */ event) => choose(event.target.value, state)}>
      ${[...logs.value].map(([id, list], n) => html`<option key=${id} value=${id}>${n + 1} · ${list[0].origin.agent} (${list.length})</option>`)}
    </select>`}
    <input type="range" min="0" max=${events.length} value=${at} aria-label=${t("replay.at")} aria-valuetext=${`${at} / ${events.length}`}
      onInput=${(/** @type {any} */ event) => {
        isPlaying.value = false;
        seek(shown, Number(event.target.value));
      }} />
    <span class="num muted replay-time">${seconds(time)} · ${at}/${events.length}</span>
    <select aria-label=${t("replay.speed")} value=${String(speed.value)} onChange=${(/** @type {any} */ event) => (speed.value = Number(event.target.value))}>
      ${SPEEDS.map((one) => html`<option key=${one} value=${String(one)}>${one}×</option>`)}
    </select>
    <button type="button" class="quiet" disabled=${isOver} aria-label=${t("replay.end")} title=${t("replay.end")} onClick=${() => {
      isPlaying.value = false;
      seek(shown, events.length);
    }}><${Icon} name="skip" /></button>
    ${bad.value > 0 && html`<span class="muted">${t("replay.bad", { n: bad.value })}</span>`}
    <button type="button" class="quiet" aria-label=${t("replay.close")} title=${t("replay.close")} onClick=${() => {
      isPlaying.value = false;
      state.picked.value = null;
      state.replayed.value = null;
    }}><${Icon} name="x" /></button>
  </div>`;
}
