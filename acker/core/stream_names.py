"""Names of streams: `component` for a component's own stream, `component.stream` for a further one.

An edge is a stream and one of its consumers. The table `batches` has the edges of a component in its column
`edges`, as `consumer` for the own stream, and as `stream>consumer` for a further one.
"""

_DOT, _ARROW = ".", ">"  # none of them is in the name of a component or stream


def stream_name(component: str, further: str) -> str:
    """The name of a stream; `further` is empty for the component's own stream."""
    return f"{component}{_DOT}{further}" if further else component


def parts_of(name: str) -> tuple[str, str]:
    """The component that emits a stream, and the further stream; empty for the component's own stream."""
    component, _, further = name.partition(_DOT)
    return component, further


def component_of(name: str) -> str:
    """The component that emits a stream."""
    return parts_of(name)[0]


def further_of(name: str) -> str:
    """The further stream that a name has; empty for a component's own stream."""
    return parts_of(name)[1]


def edge(name: str, consumer: str) -> str:
    """The edge from a stream to a consumer, as `batches.edges` has it."""
    further = further_of(name)
    return f"{further}{_ARROW}{consumer}" if further else consumer


def stream_of(edge: str) -> str | None:
    """The further stream that an edge belongs to; None for the component's own stream."""
    return edge.rpartition(_ARROW)[0] or None


def ends(emitter: str, edge: str) -> tuple[str, str]:
    """The stream and the consumer that an edge of a component connects."""
    further, _, consumer = edge.rpartition(_ARROW)
    return stream_name(emitter, further), consumer
