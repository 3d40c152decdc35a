"""Which name a decorated call leads: a text, a text with the call's arguments in it, or what a function says.

Knows: signatures, the fields of a format string. Must not know: electors, leases. Nothing in a format string is evaluated: a field is
the name of a parameter, and its value a text or an integer, taken as it is without a call of the value's own code.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable
from typing import Any, Final

from cluster.errors import UsageError

Naming = str | Callable[..., str]

_PLAIN: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)
_FIELD_RULE: Final = (
    "write the name of a parameter alone, such as report-{region}, or give a function that says the name"
)


class CallName:
    """The name of each call of one function.

    Args:
        naming: a text, with fields or without, or a function of the call's arguments.
        function: whose arguments they are.
        check: refuses what is no name.

    Raises:
        UsageError: a field that is no parameter, a text that can be no name, a function without a signature.
    """

    def __init__(self, naming: Naming, function: Callable[..., object], check: Callable[[str], object]) -> None:
        shown = getattr(function, "__qualname__", type(function).__qualname__)
        try:
            self._shown = inspect.signature(function)
        except (TypeError, ValueError):
            raise UsageError(
                f"{shown} does not say which arguments it takes", "decorate a function of your own that calls it"
            ) from None
        # What a call must fit: an inner decorator may add arguments that the function shows as its own.
        self._taken = _own_signature(function, self._shown)
        self._ask: Callable[..., str] | None = None
        self._pieces: list[tuple[str, str | None]] = []
        # The name of every call, where it has no fields.
        self._plain: str | None = None
        if isinstance(naming, str):
            self._pieces = _pieces(naming)
            for _, field in self._pieces:
                if field is not None:
                    self._check_field(naming, field, shown)
            if all(field is None for _, field in self._pieces):
                self._plain = "".join(text for text, _ in self._pieces)
            # Any value will do: what no value could make a name is refused here, and the name itself at each call.
            check("".join(text if field is None else text + "0" for text, field in self._pieces))
        elif callable(naming):
            if inspect.iscoroutinefunction(naming):
                raise UsageError("the name is a coroutine function", "give a plain function that returns the name")
            self._ask = naming
        else:
            raise UsageError(
                f"the name is {type(naming).__name__}",
                "give a text, or a function of the call's arguments that says one",
            )

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The name for one call.

        Raises:
            TypeError: arguments that the function does not take, or that leave out a field's parameter.
            UsageError: an argument that is in the name and neither a text nor an integer.
            BaseException: what a naming function raised.
        """
        self._taken.bind(*args, **kwargs)
        if self._ask is not None:
            return self._ask(*args, **kwargs)
        if self._plain is not None:
            return self._plain
        bound = self._shown.bind(*args, **kwargs)
        bound.apply_defaults()
        return "".join(
            text if field is None else text + _said(field, bound.arguments[field]) for text, field in self._pieces
        )

    def _check_field(self, naming: str, field: str, shown: str) -> None:
        parameter = self._shown.parameters.get(field)
        if parameter is None or parameter.kind not in _PLAIN:
            raise UsageError(
                f"the name {naming!r} has the field {{{field}}}, which is no single parameter of {shown}", _FIELD_RULE
            )


def _own_signature(function: Callable[..., object], shown: inspect.Signature) -> inspect.Signature:
    try:
        return inspect.signature(function, follow_wrapped=False)
    except ValueError:
        # Made in C, as that of ``functools.lru_cache``.
        return shown


def _pieces(naming: str) -> list[tuple[str, str | None]]:
    """The texts and the field behind each; no text has a brace."""
    try:
        parsed = list(string.Formatter().parse(naming))
    except ValueError as error:
        raise UsageError(f"the name {naming!r} is no format string: {error}", _FIELD_RULE) from None
    for _, field, spec, conversion in parsed:
        if field is not None and (spec or conversion or not field.isidentifier()):
            raise UsageError(f"the name {naming!r} has a field that is more than a parameter's name", _FIELD_RULE)
    return [(text, field) for text, field, _, _ in parsed]


def _said(field: str, value: object) -> str:
    # By the base types' own methods: two versions of Python write an enumeration's member in different ways.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__repr__(value)
    raise UsageError(
        f"the argument {field} is {type(value).__name__}, and the name is made of texts and integers",
        "give a function that says the name from it",
    )
