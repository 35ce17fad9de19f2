"""One measurement of the reduced benchmark: `python measure.py CLIENT METRIC URL`, prints one number.

A process each, so that nothing of the last measurement is left. What is measured is CPU time (user and system) of this
process, or its memory; the server is another process.
"""

import asyncio
import gc
import importlib
import statistics
import sys

import harness
from harness import cpu


def resident_kb() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def run(client, model):
    seen = []
    await client.run(model, "Please answer.", lambda _, text: seen.append(text))
    return len(seen)


async def difference(client, less, more, reps):
    """CPU seconds that `more` takes above `less`, medians of several."""
    await run(client, less)
    small, large = [], []
    for _ in range(reps):
        a = cpu()
        await run(client, less)
        b = cpu()
        await run(client, more)
        small.append(b - a)
        large.append(cpu() - b)
    return statistics.median(large) - statistics.median(small)


async def burst(client):
    """Microseconds a chunk, all of an answer in one write."""
    return await difference(client, "text-1", "text-2001", 7) / 2000 * 1e6


async def paced(client):
    """Microseconds a chunk, a read each."""
    await run(client, "text-50")
    used = []
    for _ in range(2):
        a = cpu()
        assert await run(client, "paced-1000-text-1000") == 1000
        used.append(cpu() - a)
    return statistics.median(used) / 1000 * 1e6


async def tools(client):
    """Milliseconds a round of two calls."""
    return await difference(client, "react-1-2-5", "react-21-2-5", 7) / 20 * 1e3


async def history(client):
    """Milliseconds a round at 980 messages, over those at 20."""
    await run(client, "react-10-1-1")
    harness.marks.clear()
    await run(client, "react-501-1-1")
    at = harness.marks

    def around(index):
        return at[index + 10] - at[index - 10]

    return around(490) / around(10)


async def runs(client):
    """Milliseconds a run, 100 at once, each of three rounds of two calls and 50 chunks."""
    await run(client, "react-3-2-50")
    used = []
    for _ in range(3):
        a = cpu()
        await asyncio.gather(*(run(client, "react-3-2-50") for _ in range(100)))
        used.append(cpu() - a)
    return statistics.median(used) / 100 * 1e3


async def memory(client):
    """Kilobytes a live run, 300 at once, a chunk each 0.3 s."""
    await run(client, "react-2-2-5")
    gc.collect()
    before = highest = resident_kb()
    live = asyncio.gather(*(run(client, "paced-300000-text-6") for _ in range(300)))
    while not live.done():
        await asyncio.wait([live], timeout=0.2)
        highest = max(highest, resident_kb())
    live.result()
    return (highest - before) / 300


METRICS = {metric.__name__: metric for metric in (burst, paced, tools, history, runs, memory)}


async def main(client, metric, url):
    client = importlib.import_module(client).Client(url)
    print(await METRICS[metric](client))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
