// Drives OpenAI's own client through cases and prints what it made of them, one JSON object.
// node openai.mjs PACKAGE BASE_URL < cases.json
import { readFileSync } from "node:fs";

const [, , name, base] = process.argv;
const { default: OpenAI } = await import(name);
const cases = JSON.parse(readFileSync(0, "utf8"));

console.warn = () => {};
console.error = () => {};

const messages = [{ role: "user", content: "Go." }];

function failure(error) {
  return { name: error.constructor.name, message: String(error.message ?? error), status: error.status ?? null, code: error.code ?? null };
}

// -- chat completions ---------------------------------------------------------------------------------------------

async function chatStream(client, model) {
  const said = {};
  const finish = [];
  const stream = await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } });
  let usage = null;
  for await (const chunk of stream) {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      if (choice.finish_reason) finish.push(choice.finish_reason);
      for (const [field, text] of Object.entries(choice.delta)) said[field] = (said[field] ?? "") + text;
    }
  }
  return { said, finish, tokens: usage?.total_tokens ?? null };
}

async function chatHelper(client, model) {
  const done = await client.chat.completions.stream({ model, messages }).finalChatCompletion();
  return { content: done.choices[0].message.content, finish: done.choices[0].finish_reason };
}

async function chatWhole(client, model) {
  const done = await client.chat.completions.create({ model, messages });
  return { content: done.choices[0].message.content, finish: done.choices[0].finish_reason };
}

// -- responses ----------------------------------------------------------------------------------------------------

async function read(stream, seen, stopAfter) {
  for await (const event of stream) {
    seen.push([event.sequence_number, event.type]);
    if (event.response) seen.id = event.response.id;
    if (event.type === stopAfter) break;
  }
}

async function respond(client, model, request, one) {
  const body = { model, ...request };
  if (one.whole) {
    const done = await client.responses.create(body);
    return { response: done, events: [] };
  }
  const events = [];
  if (one.raw) {
    const stream = await client.responses.create({ ...body, stream: true });
    let last = null;
    for await (const event of stream) {
      events.push([event.sequence_number, event.type]);
      last = event;
    }
    return { response: last?.response ?? null, events };
  }
  const stream = client.responses.stream(body);
  for await (const event of stream) events.push([event.sequence_number, event.type]);
  return { response: await stream.finalResponse(), events };
}

async function responses(client, model, one) {
  const rounds = [await respond(client, model, { input: "Go.", ...one.request }, one)];
  for (const answers of one.answers ?? []) {
    const { response } = rounds.at(-1);
    const waiting = response.output.filter((item) => item.type === "mcp_approval_request");
    const input = answers.map((answer, index) => ({ type: "mcp_approval_response", approval_request_id: waiting[index].id, ...answer }));
    rounds.push(await respond(client, model, { input, previous_response_id: response.id }, one));
  }
  const seen = { responses: rounds.map((round) => round.response), events: rounds.map((round) => round.events) };
  if (one.resume) {
    const { id } = rounds[0].response;
    seen.resumed = [];
    for (const [number] of rounds[0].events) {
      const events = [];
      await read(await client.responses.retrieve(id, { stream: true, starting_after: number }), events);
      seen.resumed.push(events);
    }
    const again = client.responses.stream({ response_id: id, starting_after: rounds[0].events[3][0] });
    seen.helped = [];
    for await (const event of again) seen.helped.push([event.sequence_number, event.type]);
    seen.again = await again.finalResponse();
  }
  if (one.then) {
    const next = await respond(client, model, { input: one.then, previous_response_id: rounds.at(-1).response.id }, one);
    seen.responses.push(next.response);
  }
  return seen;
}

async function background(client, model, one) {
  const begun = await client.responses.create({ model, input: "Go.", background: true });
  const events = [];
  await read(await client.responses.retrieve(begun.id, { stream: true }), events, one.until);
  const midway = await client.responses.retrieve(begun.id);
  if (one.cancel) return { begun, midway, events, done: await client.responses.cancel(begun.id) };
  const release = fetch(`${base}/release`);
  const rest = [];
  await read(await client.responses.retrieve(begun.id, { stream: true, starting_after: events.at(-1)[0] }), rest);
  await release;
  const asked = [];
  for await (const item of client.responses.inputItems.list(begun.id)) asked.push(item);
  return { begun, midway, events, rest, asked, done: await client.responses.retrieve(begun.id) };
}

async function hangUp(client, model, one) {
  const stream = await client.responses.create({ model, input: "Go.", stream: true });
  const events = [];
  await read(stream, events, one.until);
  stream.controller.abort();
  const rest = [];
  await read(await client.responses.retrieve(events.id, { stream: true }), rest);
  return { rest, done: await client.responses.retrieve(events.id) };
}

async function models(client) {
  const found = [];
  for await (const model of client.models.list()) found.push(model.id);
  return { models: found };
}

const APIS = { "chat.stream": chatStream, "chat.helper": chatHelper, "chat.whole": chatWhole, responses, background, hangUp, models };

const results = {};
for (const one of cases) {
  const client = new OpenAI({ baseURL: base + one.path, apiKey: "any", maxRetries: 0 });
  try {
    results[one.name] = { ...(await APIS[one.api](client, one.model ?? "", one)), failure: null };
  } catch (error) {
    results[one.name] = { failure: failure(error) };
  }
}
process.stdout.write(JSON.stringify(results), () => process.exit(0));
