// The conversation: each root run with what was asked, what the model thinks, says and calls, and how it ended.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals-core.js";
import { select, showOlder } from "../actions.js";
import { seconds, tokens } from "../format.js";
import { Safe, html } from "../html.js";
import { t } from "../i18n.js";
import { isBusyIn } from "../idle.js";
import { Icon, Spinner } from "../icons.js";
import { phase, totalUsage } from "../reducer.js";
import { lanesMode, older, panel, picked, replayed, route, runs, use } from "../state.js";
import { Media, Value } from "../value.js";
import { CallCard } from "./call.js";
import { Prose } from "./prose.js";

/** @typedef {import("../reducer.js").Run} Run */
/** @typedef {import("../reducer.js").Round} Round */
/** @typedef {import("../reducer.js").Block} Block */
/** @typedef {import("../state.js").Shown} Shown */

/** Whether the transcript follows what comes. */
export const isFollowing = signal(true);
/** @type {HTMLElement|null} */
let scroller = null;

export function toNewest() {
  isFollowing.value = true;
  if (scroller) scroller.scrollTop = scroller.scrollHeight;
}

/** @param {{empty: any}} props */
export function Transcript({ empty }) {
  const frame = useRef(/** @type {HTMLElement|null} */ (null));
  const { session } = route.value;
  useEffect(toNewest, [session]);
  const list = replayed.value ? [replayed.value] : runs.value;
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (frame.current);
    scroller = element;
    const grown = new ResizeObserver(() => {
      // What a person has just opened or begun to edit stays where it is.
      const isBusy = isBusyIn(element) || document.activeElement?.closest(".approval");
      if (isFollowing.peek() && !isBusy) element.scrollTop = element.scrollHeight;
    });
    grown.observe(/** @type {Element} */ (element.firstElementChild));
    grown.observe(element);
    let top = 0;
    const scrolled = () => {
      const left = element.scrollHeight - element.clientHeight - element.scrollTop;
      // Only a person goes up; what grows below is no reason to stop following.
      if (element.scrollTop < top - 4 && left > 60) isFollowing.value = false;
      else if (left < 60) isFollowing.value = true;
      top = element.scrollTop;
    };
    element.addEventListener("scroll", scrolled, { passive: true });
    return () => grown.disconnect();
  }, []);
  return html`<div class="transcript" ref=${frame} tabindex="0" role="log" aria-live="off" aria-label=${t("chat.transcript")}>
    <div class="column">
      ${older.value.length > 0 && html`<button type="button" class="quiet centred" onClick=${showOlder}>${t("app.more")}</button>`}
      ${list.length ? list.map((one) => html`<${Safe} key=${one.id}><${RootRun} shown=${one} /></${Safe}>`) : empty}
    </div>
  </div>`;
}

/** @param {{shown: Shown}} props */
function RootRun({ shown }) {
  use(shown);
  const { root } = shown.model;
  if (!root) {
    return html`<article class="run">
      ${shown.prompt && html`<${Said} text=${shown.prompt} />`}
      ${shown.badge.value === "failed"
        ? html`<p class="note bad"><${Icon} name="alert" />${shown.problem.value}</p>`
        : html`<p class="busy"><${Spinner} /></p>`}
    </article>`;
  }
  return html`<article class="run"><${RunItems} run=${root} rootId=${shown.id} shown=${shown} /></article>`;
}

/** What is to be seen of a run, in order. @param {{run: Run, rootId: string, shown?: Shown}} props */
export function RunItems({ run, rootId, shown }) {
  use(run);
  const last = run.items.at(-1);
  if (last?.type === "round") use(last);
  const isIdle = run.state === "running" && !run.children.some((one) => one.state === "running");
  const isQuiet = isIdle && (!last || last.type !== "round" || (last.end > 0 && !run.tools) || !last.parts.length);
  const output = run.response?.output ?? null;
  return html`
    ${run.items.map((item, at) => html`<${Item} key=${item.type === "round" ? item.key : at} item=${item} run=${run} rootId=${rootId}
      shown=${shown} output=${output} />`)}
    ${isQuiet && html`<p class="busy"><${Spinner} /></p>`}
  `;
}

/** @param {{item: any, run: Run, rootId: string, shown?: Shown, output: any}} props */
function Item({ item, run, rootId, shown, output }) {
  switch (item.type) {
    case "input":
      return run.depth ? html`<${Fold} label=${t("chat.task")}>${messages(item.messages, rootId)}</${Fold}>` : messages(item.messages, rootId);
    case "round":
      return html`<${RoundView} round=${item} rootId=${rootId} output=${output} />`;
    case "node":
      return html`<${Member} node=${item} rootId=${rootId} isOver=${run.state === "ended"} />`;
    case "run":
      return html`<div class="inner-run"><${RunItems} run=${item} rootId=${rootId} /></div>`;
    case "handoff":
      return html`<p class="aside"><${Icon} name="chevron" />${t("chat.handoff", { from: item.from, to: item.to })}
        ${item.memo && html`<span class="muted">${item.memo}</span>`}</p>`;
    case "summary":
      return html`<${Fold} label=${t("chat.summary", { n: item.replaced })}><div class="plain">${item.error ? item.error.message : item.text}</div></${Fold}>`;
    case "custom":
      return html`<${Fold} label=${item.name}><${Value} value=${item.data} /></${Fold}>`;
    default:
      return html`<${End} item=${item} run=${run} shown=${shown} />`;
  }
}

/** @param {any[]} list @param {string} rootId */
function messages(list, rootId) {
  return list.map((message) =>
    message.role === "user" || !message.role
      ? html`<${Said} text=${message.parts.map((/** @type {any} */ part) => part.text ?? "").join("")}
          media=${message.parts.filter((/** @type {any} */ part) => part.type === "media")} rootId=${rootId} />`
      : html`<${Fold} label=${message.role}><div class="plain">${message.text ?? message.parts?.map((/** @type {any} */ part) => part.text ?? "").join("")}</div></${Fold}>`,
  );
}

/** @param {{text: string, media?: any[], rootId?: string}} props */
function Said({ text, media = [], rootId = "" }) {
  return html`<div class="said"><span class="sr">${t("chat.you")}: </span>
    <div class="said-text">${text}</div>
    ${media.map((item) => html`<${Media} item=${item} runId=${rootId} />`)}
  </div>`;
}

/** @param {{label: any, open?: boolean, class?: string, children?: any}} props */
export function Fold({ label, open = false, class: more = "", children }) {
  const [isOpen, setOpen] = useState(open);
  return html`<div class=${`folded ${more}`}>
    <button type="button" class="fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
      <${Icon} name="chevron" class="twist" />${label}
    </button>
    ${isOpen && html`<div class="fold-body">${children}</div>`}
  </div>`;
}

/** @param {{round: Round, rootId: string, output: any}} props */
function RoundView({ round, rootId, output }) {
  use(round);
  const how = phase(round);
  const parts = html`
    ${round.input.length > 0 && html`<${Fold} label=${t("chat.added")}>${messages(round.input, rootId)}</${Fold}>`}
    <${Parts} round=${round} how=${how} rootId=${rootId} output=${how === "final" ? output : null} />
    ${round.interrupted && how !== "withdrawn" && round.parts.length > 0 && html`<p class="cut">${t("chat.cut")}</p>`}
  `;
  if (how === "withdrawn") {
    return html`<div class="round withdrawn">
      <${Fold} label=${html`<span>${t("chat.withdrawn", { n: round.attempt })} <span class="muted">${round.discarded?.reason}</span></span>`}>${parts}</${Fold}>
    </div>`;
  }
  return html`<div class=${`round ${how}`} data-round=${round.n} onClick=${() => (picked.value = round)}>
    ${round.again && html`<p class="aside">${t(`chat.again.${round.again}`)}</p>`}
    ${parts}
  </div>`;
}

/** @param {{round: Round, how: string, rootId: string, output: any}} props */
function Parts({ round, how, rootId, output }) {
  /** @type {any[]} */
  const out = [];
  /** @type {any[]} */
  let calls = [];
  const flush = () => {
    if (calls.length) out.push(html`<div class="calls" key=${`calls-${calls[0].key}`}>${calls}</div>`);
    calls = [];
  };
  const answer = output === null ? null : round.parts.findLast((part) => part.type === "block" && part.kind === "text");
  for (const part of round.parts) {
    if (part.type === "call") {
      calls.push(html`<${CallCard} key=${part.id} call=${part} rootId=${rootId} />`);
    } else {
      flush();
      out.push(html`<${BlockView} key=${part.id} block=${part} how=${how} rootId=${rootId} output=${part === answer ? output : null} />`);
    }
  }
  flush();
  return out;
}

/** @param {{block: Block, how: string, rootId: string, output: any}} props */
function BlockView({ block, how, rootId, output }) {
  use(block);
  if (block.kind === "thinking") return html`<${Thinking} block=${block} />`;
  if (block.kind === "media") return block.media && html`<${Media} item=${block.media} runId=${rootId} />`;
  if (block.kind === "refusal") {
    return html`<div class="refusal"><p class="muted">${t("chat.refusal")}</p><${Prose} block=${block} /></div>`;
  }
  if (!block.text.trim() && block.done) return null;
  if (output !== null && block.done) {
    return html`<div class="output"><${Value} value=${output} /><${Fold} label=${t("chat.raw")}><pre class="raw">${block.text}</pre></${Fold}></div>`;
  }
  const isData = /^\s*(\{\s*(["}]|$)|\[\s*(["{[]|$))/.test(block.text); // no Markdown begins so
  return html`<div class=${`text ${how}`}>
    ${how === "commentary" && html`<span class="sr">${t("chat.preamble")}: </span>`}
    ${isData ? html`<pre class=${`raw${block.done ? "" : " growing"}`}>${block.text}</pre>` : html`<${Prose} block=${block} />`}
  </div>`;
}

/** @param {{block: Block}} props */
function Thinking({ block }) {
  use(block);
  const [isOpen, setOpen] = useState(/** @type {boolean|null} */ (null));
  const shown = isOpen ?? !block.done;
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  useLayoutEffect(() => {
    if (box.current && !block.done) box.current.scrollTop = box.current.scrollHeight;
  });
  if (block.done && !block.text.trim()) return null;
  return html`<div class=${`thinking${block.done ? "" : " growing"}`}>
    <button type="button" class="fold" aria-expanded=${shown} onClick=${() => setOpen(!shown)}>
      <${Icon} name="chevron" class="twist" />
      ${block.done ? t("chat.thought", { time: seconds(block.end - block.start) }) : html`<span class="shimmer">${t("chat.thinking")}</span>`}
    </button>
    ${shown && html`<div class="fold-body plain" ref=${box} tabindex="0">${block.text}</div>`}
  </div>`;
}

/** @param {{node: import("../reducer.js").Node, rootId: string, isOver: boolean}} props */
function Member({ node, rootId, isOver }) {
  use(node);
  if (node.run) use(node.run);
  const [isOpen, setOpen] = useState(/** @type {boolean|null} */ (null));
  const { run } = node;
  const waits = node.outcome === "suspended";
  const shown = isOpen ?? (!isOver && (lanesMode.value !== "on" || waits));
  const time = node.end ? seconds(node.end - node.start) : "";
  const state = node.outcome ? (node.outcome === "completed" ? time : t(`end.${node.outcome}`)) : t("node.working");
  const spent = run?.total?.total || run?.usage.total || 0;
  return html`<div role="group" class="member" aria-label=${node.member} data-member=${node.member}>
    <button type="button" class="member-head" aria-expanded=${shown}
      onClick=${() => {
        setOpen(!shown);
        if (run) picked.value = run;
      }}>
      <span class=${`status-icon ${node.outcome === "completed" ? "ok" : node.outcome === "failed" ? "bad" : node.outcome === "suspended" ? "accent" : ""}`}>
        ${node.outcome ? html`<${Icon} name=${node.outcome === "completed" ? "check" : node.outcome === "suspended" ? "hand" : node.outcome === "failed" ? "x" : "stop"} />` : html`<${Spinner} />`}
      </span>
      <span class="call-name">${node.member}</span>
      ${node.label && node.label !== node.member && html`<span class="muted">${node.label}</span>`}
      <span class="call-args"></span>
      <span class="call-state">${[state, spent ? t("chat.tokens", { n: tokens(spent) }) : ""].filter(Boolean).join(" · ")}</span>
      <${Icon} name="chevron" class="twist" />
    </button>
    ${node.error && html`<p class="call-error">${node.error.message}</p>`}
    ${shown && run && html`<div class="member-body"><${RunItems} run=${run} rootId=${rootId} /></div>`}
  </div>`;
}

/** @type {Record<string, [string, string]>} */
const ENDS = { failed: ["alert", "bad"], limit: ["alert", "warn"], cancelled: ["stop", ""], rejected: ["x", ""] };

/** @param {{item: any, run: Run, shown?: Shown}} props */
function End({ item, run, shown }) {
  const { outcome } = item.segment;
  if (outcome === "suspended") return null; // the card says so
  const look = ENDS[outcome];
  const isSaid = run.rounds.some((round) => phase(round) === "final"); // by the team's own supervisor
  const answer = run.kind === "team" && !run.depth && !isSaid && item.response?.text;
  const total = shown ? totalUsage(shown.model).total || run.total?.total || 0 : 0;
  const time = run.segments.reduce((sum, one) => sum + (one.end ? one.end - one.start : 0), 0);
  return html`
    ${answer && html`<${TeamAnswer} text=${answer} output=${item.response.output ?? null} />`}
    ${look && html`<p class=${`note ${look[1]}`} role=${look[1] === "bad" ? "alert" : undefined}>
      <${Icon} name=${look[0]} /><span><b>${t(`end.${outcome}`)}</b>${item.error && html` ${item.error.message} <code>${item.error.kind}</code>`}</span>
    </p>`}
    ${shown && html`<p class="sum"><button type="button" class="fold" title=${t("panel.timeline")}
      onClick=${() => {
        select(shown);
        panel.value ||= "timeline";
      }}>${[seconds(time), total ? t("chat.tokens", { n: tokens(total) }) : ""].filter(Boolean).join(" · ")}</button></p>`}
  `;
}

/** What a team comes to, as its protocol says. @param {{text: string, output: any}} props */
function TeamAnswer({ text, output }) {
  const [block] = useState(() => ({ text, done: true, last: 0 }));
  return html`<div class="text final answer">
    ${output !== null ? html`<${Value} value=${output} />` : html`<${Prose} block=${/** @type {any} */ (block)} />`}
  </div>`;
}
