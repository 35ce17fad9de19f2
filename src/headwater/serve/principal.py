"""Who asks, and what is theirs: a run belongs to whoever began it, a session to the name it is kept under."""

from __future__ import annotations

from urllib.parse import quote

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """Whoever a request comes from. `id` is stable and tells them apart; `""` is the only user of a server for one."""

    id: str = ""

    def key_of(self, session: str) -> str:
        """The name under which a session of theirs is kept: nobody else can name it."""
        return f"{self._prefix}{session}" if self.id and not session.startswith(self._prefix) else session

    def owns(self, session: str) -> bool:
        """Whether a session that is kept under this name is theirs."""
        return session.startswith(self._prefix)

    @property
    def _prefix(self) -> str:
        return f"{quote(self.id, safe='')}/" if self.id else ""


SINGLE = Principal()
"""The only user of a server that does not tell users apart."""
