"""OpenAI's API: agents as models, for chat interfaces and for OpenAI's client libraries.

    app = create_app([agent], adapters=[openai()])

A client's base URL is `http://.../v1`, its API key the server's token, its model the agent's name.
"""

from headwater.serve.openai.adapter import openai
from headwater.serve.openai.chat import ChatStream
from headwater.serve.openai.options import ChatOptions
from headwater.serve.openai.response import ResponseStream

__all__ = ["ChatOptions", "ChatStream", "ResponseStream", "openai"]
