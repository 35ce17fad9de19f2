"""A typed client of the native API: begin runs on a headwater server, and read them over any connection.

    from headwater.client import Client

    async with Client("http://127.0.0.1:7777", token=...) as client:
        run = await client.start("teller", "Tell me a story.")
        async for event in run:
            ...

`SyncClient` is the same for scripts and notebooks. Needs nothing besides headwater itself; aiohttp is imported at the
first request.
"""

from headwater.client.client import Client
from headwater.client.remote import RemoteRun
from headwater.client.sync import SyncClient
from headwater.drive.retries import Retries

__all__ = ["Client", "RemoteRun", "Retries", "SyncClient"]
