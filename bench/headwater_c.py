"""headwater as a client of the yardstick: copy it to `clients/` there; the other clients are its siblings.

It asserts what it measures: one delta event for each chunk that the server sends, of text, thinking and arguments.
"""

import re

from harness import KEY, SYSTEM, lookup

from headwater import CompletionsModel, ReActAgent, ReasonDeltaEvent, ToolArgsDeltaEvent, tool

VENV = "headwater"
LOOKUP = tool(effect="read")(lookup)
_PIECES = 21  # of a call, as the server sends it: the name, then twenty fragments of its arguments
_SCENARIO = re.compile(
    r"(?:paced-\d+-)?(?:text-(?P<text>\d+)|reason-(?P<reason>\d+)-(?P<after>\d+)"
    r"|react-(?P<rounds>\d+)-(?P<calls>\d+)(?:-(?P<final>\d+))?|eager-(?P<eager>\d+)-\d+)"
)


def chunks(model):
    """How many chunks of text or thinking, and how many of calls, the server sends for a scenario."""
    m = _SCENARIO.match(model)
    g = {name: int(number) for name, number in m.groupdict().items() if number is not None}
    if "text" in g:
        return g["text"], 0
    if "reason" in g:
        return g["reason"] + g["after"], 0
    if "eager" in g:
        return 5, g["eager"] * _PIECES
    return g.get("final", 500), g["rounds"] * g["calls"] * _PIECES


class Client:
    def __init__(self, url):
        self.url = url
        self.agents = {}

    def agent(self, model):
        agent = self.agents.get(model)
        if agent is None:
            agent = self.agents[model] = ReActAgent(
                model=CompletionsModel(model, base_url=self.url, api_key=KEY),
                instructions=SYSTEM,
                tools=[LOOKUP],
                max_rounds=None,
            )
        return agent

    async def run(self, model, prompt, cb):
        deltas = pieces = 0
        async with self.agent(model).stream(prompt) as run:
            async for event in run:
                kind = type(event)
                if kind is ReasonDeltaEvent:
                    if event.text:
                        deltas += 1
                        if cb("reason" if event.is_thinking else "text", event.text):
                            return
                elif kind is ToolArgsDeltaEvent:
                    pieces += 1
        assert (deltas, pieces) == chunks(model), (model, deltas, pieces, chunks(model))

    async def close(self):
        for agent in self.agents.values():
            await agent.aclose()
