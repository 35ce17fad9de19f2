"""The AI SDK's UI message stream (ai-sdk.dev): runs for `useChat` of `ai` 5, 6 and 7.

    app = create_app([agent], adapters=[vercel()])

A page points `DefaultChatTransport({ api: "/vercel/v6/{agent}" })` at it.
"""

from headwater.serve.vercel.adapter import vercel
from headwater.serve.vercel.stream import VercelStream
from headwater.serve.vercel.version import VERSIONS, Version

__all__ = ["VERSIONS", "VercelStream", "Version", "vercel"]
