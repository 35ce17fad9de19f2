// What the tests of the page's scripts share: golden runs, and a short way to write a view model down.

import { readFileSync, readdirSync } from "node:fs";
import { phase } from "../../src/headwater/web/static/app/reducer.js";

const GOLDEN = new URL("../serve/golden/", import.meta.url);

export const names = readdirSync(GOLDEN)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => name.slice(0, -".jsonl".length))
  .sort();

export function golden(name) {
  const lines = readFileSync(new URL(`${name}.jsonl`, GOLDEN), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}

/** Events of one run, numbered: each is [type, fields], optionally with another run's origin. */
export function events(list, origin = {}) {
  return list.map(([type, fields = {}], at) => {
    const { of, ...rest } = fields;
    return {
      v: 1, seq: at + 1, ts: 1000 + at, type, round: 1,
      origin: {
        run_id: "run_a", root_run_id: "run_a", agent: "a", agent_kind: "react", path: ["a"], session_id: "s",
        ...origin, ...of,
      },
      ...rest,
    };
  });
}

/** Adjacent deltas of one block or call as one event, as a reader that is behind gets them. */
export function joined(list) {
  const out = [];
  for (const event of list) {
    const last = out.at(-1);
    const isText = event.type === "reason.delta" && event.chat_type?.endsWith("_DELTA");
    const same =
      last && last.type === event.type && last.origin.run_id === event.origin.run_id &&
      ((isText && last.block_id === event.block_id && last.chat_type === event.chat_type) ||
        (event.type === "reason.call" && last.call_id === event.call_id));
    if (!same) {
      out.push({ ...event });
      continue;
    }
    last.first_seq ??= last.seq;
    last.seq = event.seq;
    last.ts = event.ts;
    if (isText) last.text += event.text;
    else last.args = (last.args ?? "") + (event.args ?? "");
  }
  return out;
}

const short = (value) => JSON.stringify(value).slice(0, 80);

function call(one, pad) {
  const how = one.discarded ? `${one.status} (withdrawn)` : one.status;
  const lines = [`${pad}call ${one.name} ${how} ${short(one.args)}`];
  if (one.proposed) lines.push(`${pad}  the model wanted ${short(one.proposed)}`);
  if (one.decided) lines.push(`${pad}  decided: ${one.decided.decision} ${short(one.decided.answer ?? one.decided.comment)}`);
  if (one.task) lines.push(`${pad}  waits: ${one.task.question || "approval"}`);
  for (const attempt of one.attempts) {
    const tried = `${attempt.eager ? "eager " : ""}${attempt.executed ? "" : "not run "}${attempt.status}`;
    const told = attempt.media.length ? ` + ${attempt.media.length} media` : "";
    lines.push(`${pad}  attempt ${attempt.attempt} ${tried} ${short(attempt.text)}${told}`);
    if (attempt.progressed) lines.push(`${pad}    progress ${short(attempt.progress)}`);
  }
  for (const run of one.runs) lines.push(...outlineRun(run, `${pad}  `));
  return lines;
}

function item(one, pad) {
  switch (one.type) {
    case "input":
      return [`${pad}input ${short(one.messages.map((m) => m.parts.map((p) => p.text ?? p.type).join("")).join("|"))}`];
    case "round": {
      const finish = one.finish || (one.discarded ? `discarded: ${one.discarded.reason}` : "open");
      const lines = [`${pad}round ${one.n}.${one.attempt} ${phase(one)} ${finish}${one.interrupted ? " interrupted" : ""}`];
      for (const part of one.parts) {
        if (part.type === "call") lines.push(...call(part, `${pad}  `));
        else if (part.kind === "media") lines.push(`${pad}  media ${part.media?.media_type}`);
        else lines.push(`${pad}  ${part.kind}${part.done ? "" : " (open)"} ${short(part.text)}`);
      }
      return lines;
    }
    case "node":
      return [
        `${pad}node ${one.id} ${one.member} ${one.outcome || "at work"} x${one.attempts}`,
        ...(one.run ? outlineRun(one.run, `${pad}  `) : []),
      ];
    case "run":
      return outlineRun(one, pad);
    case "end":
      return [`${pad}end ${one.segment.outcome}${one.error ? `: ${one.error.kind}` : ""}`];
    default:
      return [`${pad}${one.type} ${short(one.text ?? one.name ?? one.memo)}`];
  }
}

export function outlineRun(run, pad = "") {
  const lines = [`${pad}run ${run.agent} ${run.kind} ${run.state} ${run.outcome}`.trimEnd()];
  for (const one of run.items) lines.push(...item(one, `${pad}  `));
  if (run.plan) lines.push(`${pad}  plan ${run.plan.index} of ${short(run.plan.steps)}`);
  return lines;
}

export const outline = (model) => [
  ...(model.root ? outlineRun(model.root) : []),
  ...[...model.pending.values()].map((one) => `waiting ${one.callId} ${one.path.join("/")} ${one.digest}`),
];
