"""The terms that a condition may be made of. They are checked in its text before anything runs it.

An engine of SQL has functions that make gigabytes of one row, and ends the process that it runs in where
there is no room for them. So a condition calls functions that are listed here, whose values are no larger
than their arguments, and nothing in it may make a list or a text of any length that somebody likes.
"""

import re
from collections.abc import Iterator

_TEXTS = (
    *("ascii", "bit_length", "btrim", "char_length", "character_length", "contains", "ends_with", "initcap"),
    *("left", "length", "lower", "ltrim", "octet_length", "position", "regexp_like", "reverse", "right"),
    *("rtrim", "split_part", "starts_with", "strpos", "substr", "substring", "trim", "upper"),
)
_NUMBERS = (
    *("abs", "ceil", "exp", "floor", "greatest", "isnan", "least", "ln", "log", "log10", "log2", "power"),
    *("round", "signum", "sqrt", "trunc"),
)
_TIMES = (
    *("current_date", "date_part", "date_trunc", "extract", "from_unixtime", "make_date", "now", "to_date"),
    *("to_timestamp", "to_timestamp_micros", "to_timestamp_millis", "to_timestamp_seconds"),
)
_OTHERS = ("array_has", "array_length", "cardinality", "cast", "coalesce", "nullif", "nvl", "try_cast")
FUNCTIONS = (*_TEXTS, *_NUMBERS, *_TIMES, *_OTHERS)
MOST_JOINED = 8  # texts or lists by `||`, each as long as a column's
_MOST_ITEMS = 1_000  # of a list whose type says its length

_WORDS = (
    *("all", "and", "any", "between", "case", "distinct", "else", "escape", "from", "ilike", "in", "is"),
    *("like", "not", "on", "or", "some", "then", "to", "when"),
)
_TYPES = ("char", "character", "dec", "decimal", "float", "numeric", "time", "timestamp", "varchar")
_BEFORE_BRACKET = frozenset((*FUNCTIONS, *_WORDS, *_TYPES))
_QUERIES = frozenset(
    ("select", "table", "values", "with", "exists", "over", "union", "intersect", "except", "describe")
)
_WITH_FROM = ("extract", "substr", "substring", "trim")  # which SQL writes like this as well
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_PLACEHOLDER = "\0"  # of what is quoted
_TERM = re.compile(r"\0|\w+|\|\||\S")
# Whatever else it is, in other dialects it quotes or begins something, or is a space that nobody sees. A
# quote that is here is one that nobody closes, which `is_whole` finds.
_REFUSED = re.compile(r"--|/\*|[^\w\s\0'\"()\[\],.+\-*/%<>=!|&^~:]|[^\S \t\r\n]|\w\0")


def refused_term(text: str) -> str | None:
    """The first term in a text that no condition may have, as people call it; None where all is well."""
    bare = _QUOTED.sub(_PLACEHOLDER, text)
    odd = _REFUSED.search(bare)
    if odd:
        return odd[0].replace(_PLACEHOLDER, "'") if odd[0].isprintable() else ascii(odd[0])[1:-1]
    # In upper case first, as the engine looks for words of SQL: that of U+017F is an S.
    return next(_refused([term.upper().lower() for term in _TERM.findall(bare)]), None)


def is_whole(text: str) -> bool:
    """Whether a condition is not blank, and each of its round brackets and quotes is opened and closed."""
    bare = _QUOTED.sub(_PLACEHOLDER, text)
    depth = 0
    for character in bare:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return bool(bare.strip()) and not depth and not set(bare) & set("'\"")


def _refused(terms: list[str]) -> Iterator[str]:
    opened: list[str] = []  # what stands before each bracket that is open
    items, joined = 1, terms.count("||")
    if joined > MOST_JOINED:
        yield f"{joined:,} ||, more than the {MOST_JOINED}"
    for before, term, after in zip(["", *terms], terms, [*terms[1:], ""], strict=False):
        if term in _QUERIES or (term == "from" and not _may_be_from(before, opened)):
            yield term
        elif term == "(":
            if _is_name(before) and before not in _BEFORE_BRACKET:
                yield f"the function {'in quotes' if before == _PLACEHOLDER else before}"
            opened.append(before)
        elif term == ")":
            opened[-1:] = []
        elif term == "[" and after[:1].isdigit():
            items = (items if before == "]" else 1) * _number(after)
            if items > _MOST_ITEMS:
                yield f"[{after}]"


def _may_be_from(before: str, opened: list[str]) -> bool:
    """Whether the word `from` in a condition begins no query, as in `extract(year from t)`.

    Args:
        before: the term before `from`.
        opened: for each open bracket around `from`, the term before the bracket; the innermost is last.
    """
    return before == "distinct" or (before != "(" and opened[-1:] in [[name] for name in _WITH_FROM])


def _is_name(term: str) -> bool:
    return term == _PLACEHOLDER or term[:1].isalnum() or term[:1] == "_"


def _number(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,4}", text) else _MOST_ITEMS + 1
