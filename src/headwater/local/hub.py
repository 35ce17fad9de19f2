"""The first source of weights: a file over HTTP, continued where an earlier download broke off."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.local.errors import SourceError

if TYPE_CHECKING:
    from aiohttp import ClientSession

CONNECT_SECONDS = 5.0
STALL_SECONDS = 30.0
_TRIES_WITHOUT_PROGRESS = 3
_BLOCK = 1 << 20
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


def download(
    url: str,
    part: Path,
    size: int,
    moved: Callable[[int], None],
    *,
    connect_seconds: float = CONNECT_SECONDS,
    stall_seconds: float = STALL_SECONDS,
) -> None:
    """Bring `part` to `size` bytes; what it holds already is kept. `moved` is told its length as it grows.

    A connection that breaks off is made again as long as each one brings something. Raises `SourceError`; `part` then
    keeps what came.
    """
    asyncio.run(_download(url, part, size, moved, connect_seconds, stall_seconds))


async def _download(
    url: str, part: Path, size: int, moved: Callable[[int], None], connect_seconds: float, stall_seconds: float
) -> None:
    from aiohttp import ClientError, ClientSession, ClientTimeout

    # The proxies of the environment count: weights come from outside.
    timeout = ClientTimeout(total=None, connect=connect_seconds, sock_read=stall_seconds)
    async with ClientSession(timeout=timeout, trust_env=True) as session:
        idle = 0
        while True:
            before = _length(part)
            if before == size:
                return
            failure = "it broke off"
            try:
                await _continue(session, url, part, size, moved)
            except (ClientError, TimeoutError, OSError) as error:
                failure = str(error) or type(error).__name__
            after = _length(part)
            if after == size:
                return
            idle = 0 if after > before else idle + 1
            # Nothing at all so far: a hub that is out of reach is not asked again and again.
            if after == 0 or idle >= _TRIES_WITHOUT_PROGRESS:
                raise SourceError(f"{failure} ({after} of {size} bytes are kept)" if after else failure)


async def _continue(session: ClientSession, url: str, part: Path, size: int, moved: Callable[[int], None]) -> None:
    """One request. Leaves what came in `part`; raises `SourceError` for an answer that no repetition would change."""
    have = _length(part)
    if have > size:
        have = _forget(part)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    async with session.get(url, headers=headers) as response:
        if response.status == 416:
            _forget(part)
            return
        if response.status not in {200, 206}:
            raise SourceError(f"it answered {response.status} {response.reason or ''}".rstrip())
        total = response.content_length
        if response.status == 206:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if match is None or int(match[1]) != have:
                raise SourceError("it answered with another range than the one asked for")
            total = int(match[2]) if match[2] != "*" else None
        else:
            have = 0  # it does not know ranges: everything comes again
        if total is not None and total != size:
            raise SourceError(f"its file has {total} bytes, not {size}")
        with part.open("ab" if have else "wb") as out:
            async for block in response.content.iter_chunked(_BLOCK):
                have += len(block)
                if have > size:
                    raise SourceError(f"it sent more than {size} bytes")
                out.write(block)
                moved(have)


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _forget(part: Path) -> int:
    part.unlink(missing_ok=True)
    return 0
