// Drives an AG-UI client through cases and prints what it made of them, one JSON object.
// node agui.mjs PACKAGE BASE_URL < cases.json
import { readFileSync } from "node:fs";

const [, , name, base] = process.argv;
const { HttpAgent } = await import(name);
const cases = JSON.parse(readFileSync(0, "utf8"));

let warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = () => {};

async function play({ path, thread = "thread", answers = [], again = false, abortAfter = "" }) {
  warnings = [];
  const agent = new HttpAgent({ url: base + path, threadId: thread, initialMessages: [{ id: "user-1", role: "user", content: "Go." }] });
  const seen = { events: [], runErrors: [], failure: null, interrupts: [], custom: [], outcomes: [], resumeRefused: null, repeated: null };
  const watch = {
    onEvent({ event }) {
      seen.events.push(event.type);
      if (abortAfter && event.type === abortAfter) agent.abortRun();
    },
    onRunErrorEvent: ({ event }) => void seen.runErrors.push({ message: event.message, code: event.code }),
    onCustomEvent: ({ event }) => void seen.custom.push(event.name),
    onRunFinishedEvent: ({ event }) => void seen.outcomes.push(event.outcome?.type ?? "absent"),
  };
  const run = async (parameters) => {
    try {
      await agent.runAgent(parameters, watch);
    } catch (error) {
      seen.failure = String(error.message ?? error);
    }
  };
  await run({ runId: "run-1" });
  seen.interrupts = structuredClone(agent.pendingInterrupts ?? []);
  if (answers.length && seen.interrupts.length) {
    try {
      await agent.runAgent({ runId: "run-2" }); // a client refuses to go on without an answer
    } catch (error) {
      seen.resumeRefused = String(error.message ?? error);
    }
    const resume = seen.interrupts.map(({ id }, index) => ({ interruptId: id, ...answers[index] }));
    await run({ runId: "run-3", resume });
    if (again) {
      // The same answers once more, as a page would send them that missed the first answer.
      await run({ runId: "run-4", resume });
      [seen.repeated, seen.failure] = [seen.failure, null];
    }
  }
  return { ...seen, warnings, messages: agent.messages };
}

const results = {};
for (const one of cases) results[one.name] = await play(one);
process.stdout.write(JSON.stringify(results), () => process.exit(0));
