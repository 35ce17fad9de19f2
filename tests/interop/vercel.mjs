// Drives the AI SDK's chat (what useChat wraps) through cases and prints what it made of them, one JSON object.
// node vercel.mjs PACKAGE BASE_URL < cases.json
import { readFileSync } from "node:fs";

const [, , name, base] = process.argv;
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = await import(name);
const cases = JSON.parse(readFileSync(0, "utf8"));

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) =>
    void (this.messages = [...this.messages.slice(0, index), structuredClone(message), ...this.messages.slice(index + 1)]);
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(settings) {
    super({ ...settings, state: new State() });
  }
}

const warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = () => {};

async function idle(chat) {
  // An approval sends the next request by itself: wait until nothing goes on.
  for (let quiet = 0; quiet < 5; ) {
    await new Promise((done) => setTimeout(done, 5));
    quiet = chat.status === "ready" || chat.status === "error" ? quiet + 1 : 0;
  }
}

async function play({ path, chat: id = "chat", answers = [], decisions = [], stopAfter = "", resume = false }) {
  const seen = { data: [], finished: [], failure: null };
  const chat = new Chat({
    id,
    transport: new DefaultChatTransport({ api: base + path }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onData(part) {
      seen.data.push(part.type + (part.transient ? " (transient)" : ""));
    },
    onFinish({ message, isAbort }) {
      seen.finished.push({ id: message.id, isAbort: isAbort ?? false });
    },
    onError(error) {
      seen.failure = String(error.message ?? error);
    },
  });
  if (resume) await chat.resumeStream();
  else {
    const sent = chat.sendMessage({ text: "Go." });
    if (stopAfter) {
      while (!JSON.stringify(chat.messages).includes(stopAfter)) await new Promise((done) => setTimeout(done, 2));
      await chat.stop();
    }
    await sent;
  }
  const first = structuredClone(chat.messages);
  const waiting = chat.lastMessage?.parts.filter((part) => part.state === "approval-requested") ?? [];
  for (const [index, part] of waiting.entries()) {
    if (answers[index]) await chat.addToolApprovalResponse({ id: part.approval.id, ...answers[index] });
  }
  if (answers.length) await idle(chat);
  if (decisions.length) {
    const pending = chat.lastMessage.parts.filter((part) => part.type === "data-hitl" && part.data.status === "pending");
    const body = { decisions: pending.map((part, index) => ({ id: part.data.id, ...decisions[index] })) };
    await chat.sendMessage(undefined, { body });
  }
  return { ...seen, status: chat.status, first, messages: chat.messages, warnings };
}

const results = {};
for (const one of cases) results[one.name] = await play(one);
process.stdout.write(JSON.stringify(results), () => process.exit(0));
