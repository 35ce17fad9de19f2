"""Why a request failed below HTTP, in words that say what to check."""

from __future__ import annotations

from typing import Any


def network_errors() -> tuple[type[Exception], ...]:
    """What aiohttp and sockets raise. `except network_errors():` asks only when something was raised."""
    from aiohttp import ClientError
    from aiohttp.http_exceptions import HttpProcessingError

    return (ClientError, HttpProcessingError, OSError)  # TimeoutError is an OSError


def printable(text: str) -> str:
    """Text of a header or of a foreign error, with the stray bytes in it replaced, so that it can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def reason(error: BaseException) -> str:
    """What went wrong below HTTP, and what to check."""
    return printable(_reason(error))


def _reason(error: BaseException) -> str:
    from aiohttp import (
        ClientConnectorCertificateError,
        ClientConnectorDNSError,
        ClientConnectorSSLError,
        ClientHttpProxyError,
        ClientPayloadError,
        ClientProxyConnectionError,
        ClientResponseError,
        ServerDisconnectedError,
        ServerTimeoutError,
    )

    match error:
        case ClientHttpProxyError():
            return f"the proxy answered {error.status}. Check HTTPS_PROXY and NO_PROXY"
        case ClientProxyConnectionError():
            return f"{_os_text(error)}. Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
        case ClientConnectorDNSError():
            return f"the host name is unknown ({_os_text(error)}). Check base_url and the network"
        case ClientConnectorCertificateError():
            return f"its certificate is not accepted ({error.certificate_error}). Check base_url and the clock"
        case ClientConnectorSSLError():
            return f"TLS failed ({_os_text(error)}). Check whether base_url should begin with http://"
        case ServerTimeoutError():
            return "no connection within the time (connect_timeout). Check base_url, the network and its firewall"
        case ServerDisconnectedError():
            return "the server closed the connection without an answer. Check that base_url is right for it"
        case ClientResponseError():
            return f"what answered does not speak HTTP ({error.message}). Check base_url: host, port, http or https"
        case ClientPayloadError():
            return f"the body ended early ({error})"
        case ConnectionRefusedError():
            return f"{_os_text(error)}. Check that the server is running and that base_url names its port"
        case OSError():
            cause: Any = getattr(error, "os_error", None)
            return _reason(cause) if isinstance(cause, ConnectionRefusedError) else _os_text(error)
        case _:
            return f"{type(error).__name__}: {error}"


def _os_text(error: BaseException) -> str:
    inner: Any = getattr(error, "os_error", None) or error
    return str(getattr(inner, "strerror", None) or inner) or type(inner).__name__
