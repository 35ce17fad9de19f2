"""What a page needs of the application that serves it: routes of its own, some of which show nothing of anybody."""

from __future__ import annotations

import msgspec
from starlette.routing import BaseRoute


class Page(msgspec.Struct, frozen=True):
    """Routes to serve beside the API.

    `public` are the paths among them that need no principal, because what they answer is the same for everybody: exact
    ones, or, where they end in `/**`, all below. Their hosts and origins are checked like others.
    """

    routes: tuple[BaseRoute, ...]
    public: tuple[str, ...] = ()
