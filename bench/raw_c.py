"""The floor of the reduced benchmark: aiohttp, msgspec and the least loop that answers calls. No events, no limits."""

import asyncio

import aiohttp
import msgspec
from harness import KEY, LOOKUP_SCHEMA, SYSTEM, lookup

loads, dumps = msgspec.json.decode, msgspec.json.encode
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}


async def answer(call):
    text = await lookup(**loads("".join(call["pieces"])))
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def as_sent(call):
    function = {"name": call["name"], "arguments": "".join(call["pieces"])}
    return {"id": call["id"], "type": "function", "function": function}


class Client:
    def __init__(self, url):
        self.url = url + "/chat/completions"
        self.session = None

    async def run(self, model, prompt, cb):
        if self.session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self.session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
        while True:
            text, calls = await self.turn(model, messages, cb)
            if not calls:
                return
            messages.append({"role": "assistant", "content": text or None, "tool_calls": [as_sent(c) for c in calls]})
            messages.extend(await asyncio.gather(*map(answer, calls)))

    async def turn(self, model, messages, cb):
        text, calls, rest = [], [], b""
        body = dumps({"model": model, "messages": messages, "tools": [LOOKUP_SCHEMA], "stream": True})
        async with self.session.post(self.url, data=body, headers=HEADERS) as response:
            async for block in response.content.iter_any():
                *frames, rest = (rest + block if rest else block).split(b"\n\n")
                for frame in frames:
                    if frame == b"data: [DONE]":
                        continue
                    choices = loads(frame[6:])["choices"]
                    if not choices:
                        continue
                    delta = choices[0]["delta"]
                    if content := delta.get("content"):
                        text.append(content)
                        cb("text", content)
                    for piece in delta.get("tool_calls", ()):
                        function = piece["function"]
                        if piece["index"] == len(calls):
                            calls.append({"id": piece["id"], "name": function["name"], "pieces": []})
                        calls[piece["index"]]["pieces"].append(function["arguments"])
        return "".join(text), calls

    async def close(self):
        await self.session.close()
