"""The same cold start with the bare reader: `python cold_raw.py URL`; see `cold.py`."""

import asyncio
import sys
import time

from raw_c import Client


async def main() -> None:
    client = Client(sys.argv[1])
    await client.run("react-1-2-20", "Please answer.", lambda kind, piece: None)
    await client.close()


asyncio.run(main())
seconds = time.process_time()
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(seconds, peak / 1024)
