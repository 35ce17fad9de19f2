"""A graph of nodes: the protocol alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.team.graph import Graph
from headwater.core.team.graph_flow import END
from headwater.core.team.routing import Finish, Member, NodeResult, TeamState
from headwater.errors import ErrorInfo, UsageError
from headwater.events import Outcome
from headwater.messages import UserMessage
from tests.teams.simulate import Fails, Says, Script, TeamSimulation

NAMES = ("a", "b", "c", "d")


def line(*names: str, graph: Graph | None = None) -> Graph:
    graph = graph or Graph()
    for name in names:
        graph.node(name)
    for source, target in pairwise(names):
        graph.edge(source, target)
    return graph


def diamond(**join: Any) -> Graph:
    return Graph().node("a").node("b").node("c").node("d", **join).edge("a", "b", "c").edge("b", "d").edge("c", "d")


def team(graph: Graph, scripts: dict[str, Script] | None = None, members: tuple[str, ...] = NAMES) -> TeamSimulation:
    return TeamSimulation(graph, members, scripts)


def says(word: str) -> Any:
    return lambda result: word in result.text  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownVariableType] a condition of any result


def labels(run: TeamSimulation) -> list[str]:
    return [assignment.label for assignment in run.assignments]


def told(run: TeamSimulation, label: str) -> str:
    (message,) = [one.input[-1] for one in run.assignments if one.label == label]
    assert isinstance(message, UserMessage)
    return message.text


def test_nodes_follow_their_edges_and_the_last_one_answers() -> None:
    run = team(line("a", "b", "c"))
    assert run.run() == Finish("c says so.", member="c")
    assert labels(run) == ["a", "b", "c"]
    assert run.assignments[0].input == run.state.task
    assert '<result from="a">\na says so.' in told(run, "c")
    assert '<result from="b">' in told(run, "c")


def test_a_node_may_have_another_name_than_its_member_and_a_part_of_its_own() -> None:
    graph = (
        Graph().node("first", "a").node("second", Member("a"), ask="Be brief.").edge("first", "second").end("second")
    )
    run = team(graph)
    run.run()
    assert [(one.label, one.member) for one in run.assignments] == [("first", "a"), ("second", "a")]
    assert told(run, "second").endswith("Your part:\nBe brief.")
    assert '<result from="first">' in told(run, "second")


def test_branches_run_at_the_same_time_and_meet() -> None:
    run = team(diamond())
    run.start()
    run.step()
    assert [work.label for work in run.state.running] == ["b", "c"]
    run.step(lambda n: 1)
    assert labels(run) == ["a", "b", "c"]
    assert run.run() == Finish("d says so.", member="d")
    assert labels(run) == ["a", "b", "c", "d"]
    assert [told(run, "d").index(f'from="{name}"') for name in "abc"] == sorted(
        told(run, "d").index(f'from="{name}"') for name in "abc"
    )


@pytest.mark.parametrize("word", ["left", "right"])
def test_a_branch_that_was_not_taken_is_not_waited_for(word: str) -> None:
    graph = Graph().node("a").node("b").node("c").node("d").edge("a", "b", when=says("left"))
    graph.edge("a", "c", otherwise=True).edge("b", "d").edge("c", "d")
    run = team(graph, {"a": [Says(word)]})
    assert run.run().text == "d says so."
    assert labels(run) == ["a", "b" if word == "left" else "c", "d"]


def test_a_condition_may_ask_for_the_state_and_a_function_may_choose() -> None:
    def first_time(result: NodeResult, state: TeamState) -> bool:
        return len(state.done) == 1

    graph = line("a").node("b").node("c").edge("a", "b", when=first_time)
    graph.branch("b", lambda result: ["c", END] if "both" in result.text else END, "c", END)
    assert labels(run := team(graph, {"b": [Says("both")]})) == []
    assert run.run().text == "both\n\nc says so."
    assert labels(run) == ["a", "b", "c"]


def test_a_loop_goes_round_until_its_condition_says_so() -> None:
    graph = line("a", "b").edge("b", "a", when=says("again")).edge("b", END, otherwise=True)
    run = team(
        graph, {"b": [Says("again"), Says("again"), Says("good")], "a": [Says("one"), Says("two"), Says("three")]}
    )
    assert run.run() == Finish("good", member="b")
    assert labels(run) == ["a", "b", "a#2", "b#2", "a#3", "b#3"]
    # the writer of the third draft sees the last draft and the last review, not all of them
    assert 'from="a">\ntwo' in told(run, "a#3")
    assert "one" not in told(run, "a#3")


def test_a_loop_without_a_way_on_ends_at_its_limit_with_the_last_result() -> None:
    graph = Graph(max_visits=2).node("a").node("b").edge("a", "b")
    graph.edge("b", "a", when=says("again")).edge("b", END, when=says("good"))
    end = team(graph, {"b": [Says("again 1"), Says("again 2")]}).run()
    assert (end.text, end.outcome) == ("again 2", Outcome.LIMIT)
    assert end.error == ErrorInfo(
        "max_visits", "The node 'a' has been visited 2 times, the most it may be (max_visits)."
    )


def test_at_the_limit_of_a_loop_the_otherwise_edge_goes_on() -> None:
    graph = Graph().node("a", max_visits=2).node("b").node("c").edge("a", "b")
    graph.edge("b", "a", when=says("again")).edge("b", "c", otherwise=True)
    run = team(graph, {"b": [Says("again"), Says("again")]})
    assert run.run() == Finish("c says so.", member="c")
    assert labels(run) == ["a", "b", "a#2", "b#2", "c"]


def test_any_takes_the_first_and_stops_the_others() -> None:
    run = team(diamond(join="any"))
    run.start()
    run.step()
    run.step(lambda n: 1)
    assert [(work.label, job.is_stopped) for work, job in zip(run.state.running, run.jobs, strict=True)] == [
        ("b", True),
        ("d", False),
    ]
    assert 'from="b"' not in told(run, "d")
    assert run.run() == Finish("d says so.", member="d")
    assert labels(run) == ["a", "b", "c", "d"]


def test_the_loser_of_a_race_is_not_waited_for_and_its_failure_does_not_matter() -> None:
    run = team(diamond(join="any"), {"b": [Fails()]})
    run.start()
    run.step()
    run.step(lambda n: 1)
    run.step(lambda n: 1)
    assert run.finish == Finish("d says so.", member="d")
    run = team(diamond(join="any"), {"b": [Fails()]})
    run.start()
    run.step()
    run.step(lambda n: 1)
    run.step()
    assert run.run() == Finish("d says so.", member="d")


def test_a_loser_with_something_else_to_do_goes_on() -> None:
    graph = diamond(join="any").node("e", "a").edge("b", "e").edge("d", "e")
    run = team(graph)
    run.start()
    run.step()
    run.step(lambda n: 1)
    assert not any(job.is_stopped for job in run.jobs)
    assert run.run().text == "a says so."
    assert labels(run)[-1] == "e"
    assert 'from="b"' in told(run, "e")


def test_a_join_of_n_waits_for_that_many() -> None:
    graph = Graph().node("s", "a").node("a").node("b").node("c").node("d", join=2).edge("s", "a", "b", "c")
    for name in "abc":
        graph.edge(name, "d")
    run = team(graph)
    run.start()
    run.step()
    run.step()
    assert "d" not in labels(run)
    run.step()
    assert "d" in labels(run)
    assert 'from="c"' not in told(run, "d")
    assert run.run().member == "d"


def test_a_race_in_a_loop_is_run_anew_each_time() -> None:
    graph = diamond(join="any").edge("d", "a", when=says("again")).edge("d", END, otherwise=True)
    run = team(graph, {"d": [Says("again"), Says("done")]})
    assert run.run().text == "done"
    assert [label for label in labels(run) if label.startswith("d")] == ["d", "d#2"]


def test_a_strict_join_that_is_not_reached_says_what_it_waits_for() -> None:
    graph = Graph().node("a").node("b").node("c").node("d", join="all").edge("a", "b")
    graph.edge("a", "c", when=says("never")).edge("b", "d").edge("c", "d")
    end = team(graph).run()
    assert end.error is not None
    assert end.outcome is Outcome.FAILED
    assert "The node 'd' waits for 'c'" in end.error.message


def test_a_way_that_leads_nowhere_says_after_which_node() -> None:
    end = team(line("a").node("b").edge("a", "b", when=says("never"))).run()
    assert end.error is not None
    assert "No edge was taken after 'a'" in end.error.message


def test_a_side_branch_need_not_be_taken() -> None:
    graph = line("a", "b").node("c").edge("a", "c", when=says("never"))
    assert team(graph).run() == Finish("b says so.", member="b")


def test_several_ends_are_put_together_in_the_order_of_the_nodes() -> None:
    graph = Graph().node("a").node("b").node("c").edge("a", "b", "c")
    run = team(graph)
    assert run.run(lambda n: n - 1) == Finish("b says so.\n\nc says so.")


def test_two_starts_begin_together_and_a_node_waits_for_the_other_start() -> None:
    run = team(Graph().node("a").node("b").node("c").edge("a", "c").edge("b", "c").start("a", "b"))
    run.start()
    assert [work.label for work in run.state.running] == ["a", "b"]
    assert run.run().member == "c"
    run = team(Graph().node("a").node("b").edge("a", "b").start("a", "b"))
    assert (run.run().member, labels(run)) == ("b", ["a", "b"])


def test_nodes_that_wait_for_each_other_do_not_wait_for_ever() -> None:
    graph = Graph().node("a").node("b").edge("a", "b", when=says("x")).edge("b", "a", when=says("x"))
    graph.edge("a", END, otherwise=True).edge("b", END, otherwise=True).start("a", "b")
    run = team(graph)
    assert run.run().outcome is Outcome.COMPLETED
    assert labels(run)[0] == "a"


def test_a_failure_reaches_the_conditions_and_without_an_answer_the_team_fails() -> None:
    graph = (
        line("a").node("b").node("c").edge("a", "b", when=lambda result: result.is_ok).edge("a", "c", otherwise=True)
    )
    run = team(graph, {"a": [Fails("503")]})
    assert run.run().member == "c"
    assert "503" in told(run, "c")
    end = team(line("a"), {"a": [Fails("503")]}).run()
    assert end.error is not None
    assert end.error.message == "The member 'a' failed: 503"


def test_a_condition_that_raises_names_its_edge() -> None:
    run = team(line("a").node("b").edge("a", "b", when=lambda result: 1 / 0 > 1))
    run.start()
    with pytest.raises(UsageError, match="The condition of the edge 'a' -> 'b' failed with ZeroDivisionError"):
        run.step()


def test_a_choice_that_is_not_offered_names_what_is() -> None:
    run = team(line("a").node("b").branch("a", lambda result: "x", "b", END))
    run.start()
    with pytest.raises(UsageError, match="it chose 'x', and only 'b', 'end' can be chosen"):
        run.step()


def test_a_condition_is_asked_once() -> None:
    asked: list[str] = []

    def when(result: NodeResult) -> bool:
        asked.append(result.text)
        return True

    run = team(line("a").node("b").node("c").edge("a", "b", when=when).edge("b", "c"))
    run.run()
    assert set(asked) == {"a says so."}
    assert len(asked) == 2  # the simulation asks twice each time, to see that nothing but the state counts


BAD: list[tuple[Graph, str]] = [
    (Graph(), "has no nodes"),
    (line("a").node("b"), "Nothing leads to the node 'b': add an edge to it, or name it in start"),
    (line("a").node("b").node("c").edge("b", "c").edge("c", "b"), "Nothing leads from the start to 'b' and 'c'"),
    (line("a", "b").edge("b", "a"), "No way leads from the node 'a' to the end"),
    (Graph().node("x"), "'x', which is no member. The members are: a, b, c, d"),
    (line("a").edge("a", "z"), "The edge 'a' -> 'z' needs a node 'z'"),
    (line("a").edge("z", "a"), "The edge 'z' -> 'a' needs a node 'z'"),
    (line("a").start("z"), "starts at 'z', which is no node"),
    (diamond(join=3), "joins 3 of its 2 ways in: give a number from 1 to 2"),
    (Graph(max_visits=0).node("a"), "max_visits=0: it must be 1 or more"),
    (
        Graph().node("a").node("b", join="all").edge("a", "b").edge("b", "b", when=says("x")).edge("b", END),
        "The join of the node 'b' can never be satisfied: it waits for 'b'",
    ),
    (
        Graph().node("a").node("b", join="all").node("c").edge("a", "b").edge("b", "c").edge("c", "b").edge("c", END),
        "The join of the node 'b' can never be satisfied: it waits for 'c'",
    ),
    (line("a", "b").edge("a", END, otherwise=True), "always goes to 'b', so its otherwise edge is never taken"),
    (line("a").node("b").edge("a", "b", otherwise=True), "has an otherwise edge and no condition"),
]


@pytest.mark.parametrize(("graph", "why"), BAD, ids=[why[:40] for _, why in BAD])
def test_a_graph_that_cannot_work_is_refused(graph: Graph, why: str) -> None:
    with pytest.raises(UsageError, match="This graph cannot work") as caught:
        team(graph)
    assert why in str(caught.value)


def test_mistakes_are_refused_where_they_are_made() -> None:
    with pytest.raises(UsageError, match="There is a node 'a' already"):
        line("a").node("a")
    with pytest.raises(UsageError, match="There is an edge 'a' -> 'b' already"):
        line("a", "b").edge("a", "b")
    with pytest.raises(UsageError, match="cannot be named 'end'"):
        Graph().node("end")
    with pytest.raises(UsageError, match="leads nowhere"):
        line("a").edge("a")
    with pytest.raises(UsageError, match="give one of the two"):
        line("a", "b").edge("b", END, when=says("x"), otherwise=True)
    with pytest.raises(UsageError, match="cannot have join='some'"):
        Graph().node("a", join="some")  # pyright: ignore[reportArgumentType] what is refused

    async def later(result: NodeResult) -> bool:
        return True

    with pytest.raises(UsageError, match="must be a plain function"):
        line("a").edge("a", END, when=later)
    with pytest.raises(UsageError, match="takes 3 arguments"):
        line("a").edge("a", END, when=lambda a, b, c: True)  # pyright: ignore[reportArgumentType, reportUnknownLambdaType] what is refused


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        team(line("a").node("b").node("c").edge("b", "c"))
    assert "'b'" in str(caught.value)


def test_a_graph_is_drawn() -> None:
    graph = line("a", "b").node("c", "d", join="any", ask="x").edge("b", "c", when=says("x"), label='says "x" & <y>')
    graph.edge("b", END, otherwise=True)
    assert graph.mermaid() == (
        "flowchart TD\n"
        '    begin(["start"])\n'
        '    n1["a"]\n'
        '    n2["b"]\n'
        '    n3["c<br/>d<br/>join: any"]\n'
        '    finish(["end"])\n'
        "    begin --> n1\n"
        "    n1 --> n2\n"
        '    n2 -- "says #quot;x#quot; & #lt;y#gt;" --> n3\n'
        '    n2 -. "otherwise" .-> finish\n'
        "    n3 --> finish\n"
    )


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of up to five nodes in any order, with conditions, loops and joins; most are sound."""
    count = draw(st.integers(1, 5))
    graph = Graph(max_visits=draw(st.integers(1, 3)))
    names = [f"n{number}" for number in range(count)]
    for name in names:
        graph.node(name, draw(st.sampled_from(NAMES)), join=draw(st.sampled_from([None, None, "any", "all", 1, 2])))
    parents = {names[index]: names[draw(st.integers(0, index - 1))] for index in range(1, count)}
    for index, source in enumerate(names):
        leads, is_sure = False, False
        for target in names[index + 1 :]:
            if parents[target] == source or draw(st.integers(0, 3)) == 0:
                when = draw(st.sampled_from([None, says("x"), says("y")]))
                graph.edge(source, target, when=when)
                leads, is_sure = True, is_sure or when is None
        for target in names[: index + 1]:
            if draw(st.integers(0, 5)) == 0:
                graph.edge(source, target, when=says("y"))
                leads = True
        if leads and not is_sure:
            graph.edge(source, END, otherwise=draw(st.booleans()))
    return graph.start(*draw(st.lists(st.sampled_from(names), unique=True, max_size=2)))


STEPS = st.lists(st.sampled_from([Says("x"), Says("y"), Says("x y"), Says(""), Fails()]), max_size=20)


@settings(deadline=None)
@given(graphs(), STEPS, STEPS, st.data())
def test_every_sound_graph_comes_to_an_end_in_any_order(
    graph: Graph, one: list[Any], two: list[Any], data: st.DataObject
) -> None:
    scripts: dict[str, Script] = {"a": one, "b": two}
    try:
        run = team(graph, scripts)
    except UsageError:
        return
    end = run.run(lambda n: data.draw(st.integers(0, n - 1)))
    assert end.outcome in (Outcome.COMPLETED, Outcome.LIMIT, Outcome.FAILED)
    assert len(set(labels(run))) == len(labels(run))
    assert end.error is not None or end.outcome is Outcome.COMPLETED


@settings(deadline=None)
@given(st.data())
def test_what_a_node_is_told_does_not_depend_on_who_was_faster(data: st.DataObject) -> None:
    graph = Graph().node("a").node("b").node("c").node("e", "a").node("d").edge("a", "b", "c")
    graph.edge("b", "e").edge("e", "d").edge("c", "d")
    first, other = team(graph), team(graph)
    first.run()
    other.run(lambda n: data.draw(st.integers(0, n - 1)))
    assert told(first, "d") == told(other, "d")
