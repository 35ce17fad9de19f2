"""Serving agents over HTTP: an ASGI application with a native API, and protocol adapters that plug into it."""
