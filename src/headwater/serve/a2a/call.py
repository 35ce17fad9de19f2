"""One request of a client: for whom it is, which agent it is about, and what our errors are to it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.routes import ServerCallContextBuilder
from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, TaskNotFoundError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from headwater.serve.a2a.options import Options
from headwater.serve.a2a.stream import A2AStream
from headwater.serve.a2a.values import EXTENSION
from headwater.serve.hub import Hub
from headwater.serve.principal import Principal
from headwater.serve.problems import Refused, refusal_of
from headwater.serve.requests import hub_of, principal_of

_KEY = "headwater.call"
_OF_CLIENT = (400, 409, 422)


class Call:
    """What the handler has to know of a request. `refused` is set where the answer is a status of HTTP, such as 429."""

    def __init__(self, request: Request, options: Options) -> None:
        self.hub: Hub = hub_of(request)
        self.principal: Principal = principal_of(request)
        self.options = options
        self.agent: str = self.hub.agent(request.path_params["agent"]).name
        self.base = base_of(request, options)
        self.extension = EXTENSION in get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER))
        self.refused: Refused | None = None
        self._debug: bool = request.app.state.debug

    def stream(self, run_id: str, session: str, *, extension: bool = False) -> A2AStream:
        """The translation of a run, from its first event on."""
        return A2AStream(
            run_id,
            self.context_of(session) or run_id,
            extension=extension,
            live=self.options.live,
            blobs=f"{self.base}/runs",
        )

    def context_of(self, session: str) -> str:
        """The name by which a client knows a session: without the mark of whose it is."""
        return session.removeprefix(self.principal.key_of(""))

    @contextmanager
    def told(self) -> Generator[None]:
        """Raise our errors, inside, as those of the protocol; nothing of what is inside is told."""
        try:
            yield
        except (A2AError, HTTPException):
            raise
        except Exception as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> A2AError:
        refused = refusal_of(error, debug=self._debug)
        problem = refused.problem
        if problem.status == 404:
            return TaskNotFoundError()
        if problem.status in _OF_CLIENT:
            return InvalidParamsError(problem.detail, {"code": problem.code})
        self.refused = refused
        return InternalError(problem.detail)


class CallContexts(ServerCallContextBuilder):
    """Makes the SDK's context of a request; ours goes along in its state."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def build(self, request: Request) -> ServerCallContext:
        call = request.state.a2a_call = Call(request, self._options)
        headers: Mapping[str, str] = dict(request.headers)
        requested = {EXTENSION} if call.extension else set[str]()
        return ServerCallContext(state={"headers": headers, _KEY: call}, requested_extensions=requested)


def call_of(context: ServerCallContext) -> Call:
    found: Any = context.state[_KEY]
    assert isinstance(found, Call)
    return found


def base_of(request: Request, options: Options) -> str:
    """Where clients find the application, without a slash at the end."""
    return (options.url or str(request.base_url)).rstrip("/")


def url_of(base: str, agent: str, options: Options) -> str:
    """Where clients find an agent."""
    return f"{base}{options.path}/{quote(agent, safe='')}"
