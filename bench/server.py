"""The reduced benchmark's endpoint: `python server.py PORT`, on loopback, a process of its own.

The model's name is the scenario, as in the yardstick:

    [paced-US-]text-N     N chunks of text, all in one write, or one each US microseconds
    react-K-T-F           K rounds of T calls (name, then twenty fragments each), then F chunks of text

The round follows from the number of results in the request.
"""

import asyncio
import json
import re
import sys
from functools import lru_cache

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS = [" the", " model", " stream", "ing", " runtime", " of", " agents", ","]
ARGUMENTS = ['{"', "query", '":', ' "', *[" word"] * 10, '"', ', "', "n", '":', " 1", "2}"]
MODEL = re.compile(rb'"model": ?"(?:paced-(?P<us>\d+)-)?(?P<scenario>(?:text|react)[-\d]+)"')


def frame(data: bytes) -> bytes:
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def chunk(choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> bytes:
    head = {"id": "chatcmpl-C8xT0pQ3mZ9rKfW2uVbNaLs7YdE", "object": "chat.completion.chunk", "created": 1764512345}
    rest = {"model": "bench", "system_fingerprint": "fp_51db84afab", "choices": choices, "usage": usage}
    return frame(json.dumps({**head, **rest}, separators=(",", ":")).encode())


def delta(value: dict[str, object], finish: str | None = None) -> bytes:
    return chunk([{"index": 0, "delta": value, "logprobs": None, "finish_reason": finish}])


@lru_cache(maxsize=2048)
def answer(scenario: str, round_number: int) -> list[bytes]:
    """The answer, a part for each chunk; the response's head is in the first, its end in the last."""
    kind, *numbers = scenario.split("-")
    k, t, f = (int(n) for n in numbers) if kind == "react" else (0, 1, int(numbers[0]))
    parts = [HEAD + delta({"role": "assistant", "content": ""})]
    if round_number < k:
        for i in range(t):
            function = {"name": "lookup", "arguments": ""}
            call = {"index": i, "id": f"call_r{round_number}t{i}", "type": "function", "function": function}
            parts.append(delta({"tool_calls": [call]}))
            parts += [delta({"tool_calls": [{"index": i, "function": {"arguments": a}}]}) for a in ARGUMENTS]
    else:
        parts += [delta({"content": WORDS[i % len(WORDS)]}) for i in range(f)]
    end = delta({}, "tool_calls" if round_number < k else "stop")
    usage = chunk([], {"prompt_tokens": 120, "completion_tokens": 345, "total_tokens": 465})
    return [*parts, end + usage + frame(b"[DONE]") + b"0\r\n\r\n"]


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.received = b""

    def data_received(self, data):
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found or len(body) < int(re.search(rb"(?i)content-length: *(\d+)", head)[1]):
            return
        self.received = b""
        asked = MODEL.search(body)
        scenario = asked["scenario"].decode()
        calls = int(scenario.split("-")[2]) if scenario.startswith("react") else 1
        parts = answer(scenario, body.count(b'"tool_call_id"') // calls)
        if asked["us"] is None:
            self.transport.write(b"".join(parts))
        else:
            loop = asyncio.get_running_loop()
            self.pace(loop, iter(parts), loop.time(), int(asked["us"]) / 1e6)

    def pace(self, loop, parts, due, step):
        for part in parts:
            self.transport.write(part)
            due += step
            if due > loop.time():
                loop.call_at(due, self.pace, loop, parts, due, step)
                return


async def main(port):
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
