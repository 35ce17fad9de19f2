"""The artifact that a run's answer is: what may go into it, and what is held until it is known to be the answer."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.serve.a2a.values import Json

ANSWER = "answer"
_EMPTY: Json = {"text": ""}


class Artifacts:
    """A task's artifacts as its clients have them, and the updates that make them so.

    Each update is written to `out`. `append` goes only to an artifact that is known and not closed.
    """

    def __init__(self, head: Json, out: list[Json]) -> None:
        self._head = head
        self._out = out
        self._known: dict[str, Json] = {}
        self._closed: set[str] = set()

    def all(self) -> list[Json]:
        """The artifacts as they are, pieces of text joined; one from which all was taken back is none."""
        found = [{**artifact, "parts": joined(artifact["parts"])} for artifact in self._known.values()]
        return [artifact for artifact in found if artifact["parts"]]

    def again(self, before: Artifacts) -> list[Json]:
        """The updates that put these in the place of those that a client has; what was closed is complete."""
        found: list[Json] = []
        for artifact_id, artifact in self._known.items():
            if artifact_id not in before._closed:
                whole = {**artifact, "parts": joined(artifact["parts"]) or [_EMPTY]}
                last = artifact_id in self._closed
                found.append({"artifactUpdate": {**self._head, "artifact": whole, "append": False, "lastChunk": last}})
        return found

    def text(self, artifact_id: str) -> str:
        known = self._known.get(artifact_id)
        return "" if known is None else "".join(part.get("text", "") for part in known["parts"])

    def parts(self, artifact_id: str) -> list[Json]:
        known = self._known.get(artifact_id)
        return [] if known is None else joined(known["parts"])

    def is_open(self, artifact_id: str) -> bool:
        return artifact_id in self._known and artifact_id not in self._closed

    def add(self, artifact_id: str, parts: Sequence[Json], *, last: bool = False) -> None:
        """Append to an artifact; one that is unknown, or from which all was taken back, begins."""
        if self.is_open(artifact_id) and self._known[artifact_id]["parts"]:
            self._known[artifact_id]["parts"] += parts
            self._update({"artifactId": artifact_id, "parts": list(parts)}, append=True, last=last)
        else:
            self.put(artifact_id, parts, last=last)

    def put(
        self,
        artifact_id: str,
        parts: Sequence[Json],
        *,
        name: str = "",
        metadata: Json | None = None,
        last: bool = False,
    ) -> None:
        """Begin an artifact, or put something else in its place."""
        artifact: Json = {"artifactId": artifact_id, "name": name or artifact_id, "parts": list(parts or [_EMPTY])}
        if metadata:
            artifact["metadata"] = metadata
        self._known[artifact_id] = {**artifact, "parts": list(parts)}
        self._update(artifact, append=False, last=last)

    def close(self, artifact_id: str) -> None:
        if self.is_open(artifact_id):
            self.add(artifact_id, [_EMPTY], last=True)

    def _update(self, artifact: Json, *, append: bool, last: bool) -> None:
        update = {**self._head, "artifact": artifact, "append": append, "lastChunk": last}
        if last:
            self._closed.add(artifact["artifactId"])
        self._out.append({"artifactUpdate": update})


class Answer:
    """The text and media of the root's turn that goes on.

    What is said before it is known what the turn is, is held, so that a preamble is never taken for the answer; with
    `live` it is shown at once, and taken back when it was none.
    """

    def __init__(self, artifacts: Artifacts, *, live: bool) -> None:
        self._artifacts = artifacts
        self._live = live
        self._held: list[Json] = []
        self._shown: list[Json] = []
        """What the artifact has of this turn."""
        self._shows = live

    def say(self, part: Json) -> None:
        """A piece of text, or media, of the turn."""
        if part.get("text") == "":
            return
        if self._shows:
            self._show([part])
        else:
            self._held.append(part)

    def is_the_answer(self) -> None:
        """The turn is known to be the answer."""
        self._shows = True
        held, self._held = self._held, []
        if held:
            self._show(joined(held))

    def is_no_answer(self) -> None:
        """The turn is known to be something else: what it has said is taken back, and held."""
        self._held = [*self._shown, *self._held]
        self._shows = False
        self._take_back()

    def turn_over(self) -> list[Json]:
        """A turn ends that was no answer; returns what it has said."""
        self.is_no_answer()
        said = joined(self._held)
        self.withdraw()
        return said

    def withdraw(self) -> None:
        """What the turn has said is void, and what it will be is open again."""
        self._held.clear()
        self._shows = self._live
        self._take_back()

    def settle(self, text: str, *, exact: bool) -> None:
        """The run is over. With `exact` the answer's text is `text`, whatever the last turn said."""
        self.is_the_answer()
        if exact and text != self._artifacts.text(ANSWER):
            others = [part for part in self._artifacts.parts(ANSWER) if "text" not in part]
            parts = [{"text": text}, *others] if text else others
            if parts or self._artifacts.is_open(ANSWER):
                self._artifacts.put(ANSWER, parts, last=True)
        self._artifacts.close(ANSWER)

    def _show(self, parts: Sequence[Json]) -> None:
        self._shown += parts
        self._artifacts.add(ANSWER, parts)

    def _take_back(self) -> None:
        if self._shown:
            self._shown.clear()
            self._artifacts.put(ANSWER, ())


def joined(parts: Sequence[Json]) -> list[Json]:
    """The parts with neighbours of plain text joined, and without text that is empty."""
    found: list[Json] = []
    for part in parts:
        if part.keys() == {"text"}:
            if not part["text"]:
                continue
            if found and found[-1].keys() == {"text"}:
                found[-1] = {"text": found[-1]["text"] + part["text"]}
                continue
        found.append(part)
    return found


def merged(updates: Sequence[Json]) -> list[Json]:
    """The same updates with neighbours that append to one artifact made one: what comes at once is sent at once."""
    found: list[Json] = []
    for update in updates:
        now = update.get("artifactUpdate")
        before = found[-1].get("artifactUpdate") if found else None
        if now is None or before is None or not now["append"] or not _may_join(before, now):
            found.append(update)
            continue
        parts = joined([*before["artifact"]["parts"], *now["artifact"]["parts"]]) or [_EMPTY]
        artifact = {**before["artifact"], "parts": parts}
        found[-1] = {"artifactUpdate": {**before, "artifact": artifact, "lastChunk": now["lastChunk"]}}
    return found


def _may_join(before: Json, now: Json) -> bool:
    return before["artifact"]["artifactId"] == now["artifact"]["artifactId"] and not before["lastChunk"]
