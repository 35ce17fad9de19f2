"""A graph as a Mermaid flowchart, for documentation: https://mermaid.js.org/syntax/flowchart.html"""

from __future__ import annotations

from headwater.core.team.graph_flow import END, START, GraphEdge, GraphNode, Shape


def mermaid(shape: Shape) -> str:
    """The flowchart, top down: nodes with their members, edges with their labels, dotted where one is a last resort."""
    # Node ids are made up: a name may be any text, and some words, `end` among them, break a flowchart.
    ids = {START: "begin", **{name: f"n{number}" for number, name in enumerate(shape.nodes, 1)}, END: "finish"}
    lines = ["flowchart TD", f'    {ids[START]}(["{START}"])']
    lines += [f'    {ids[node.name]}["{_label(node)}"]' for node in shape.nodes.values()]
    lines.append(f'    {ids[END]}(["{END}"])')
    lines += [f"    {ids[START]} --> {ids[name]}" for name in shape.starts]
    for name in shape.nodes:
        lines += [f"    {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}" for edge in shape.out_of(name)]
    return "\n".join(lines) + "\n"


def _label(node: GraphNode) -> str:
    label = _text(node.name)
    if node.member != node.name:
        label += f"<br/>{_text(node.member)}"
    return label if node.join is None else f"{label}<br/>join: {node.join}"


def _arrow(edge: GraphEdge) -> str:
    if edge.otherwise:
        return f'-. "{_text(edge.label or "otherwise")}" .->'
    label = edge.label or ("if" if edge.when else "")
    return f'-- "{_text(label)}" -->' if label else "-->"


def _text(text: str) -> str:
    """Text inside quotes: entities in the form that Mermaid reads."""
    for char, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(char, entity)
    return " ".join(text.split())
