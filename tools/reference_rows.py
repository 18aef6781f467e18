"""What is known of servers and of models' prices, as rows of reference pages."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from importlib.metadata import entry_points

from treadle.models.resolve import GROUP
from treadle.providers.openai.dialect import SERVERS, ChatDialect
from treadle.providers.prices import TABLE
from treadle.usage import Price

Cells = tuple[str, ...]

SERVER_HEADER = ("Name", "Server", "Address", "Moved by", "Key", "Obeys a schema", "Beside it")
PRICE_HEADER = ("Model", "Input", "Output", "Cache read", "Cache write", "Window", "Longest reply")
NO_BOTH = "A schema for the output holds only while no tools are offered."
"""What a column of the table says already."""
VENDORS = {
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "google": "Google",
    **{name: server.title for name, server in SERVERS.items() if name in TABLE},
}


def server_rows() -> Iterator[Cells]:
    """Yield what is known of each server that speaks Chat Completions."""
    strings = entry_points(group=GROUP).names
    for name, server in SERVERS.items():
        by_string = name in strings and name != "google"
        keys = " or ".join(f"`{key}`" for key in server.keys)
        yield (
            f"`{name}`" if by_string else f'`{name}`, only as `OpenAI(server="{name}")`',
            server.title,
            f"`{server.url}`" if server.url else "your own",
            f"`{server.url_variable}`" if server.url_variable else "",
            keys if server.needs_key else f"none, or {keys}",
            _obeys(server.dialect),
            server.notes.removesuffix(NO_BOTH).strip(),
        )


def price_rows(vendor: str) -> Iterator[Cells]:
    """Yield what each model of a vendor costs, and how large requests and replies may be."""
    for name, known in TABLE[vendor].items():
        yield f"`{name}`", *_amounts(known.price), _number(known.window), _number(known.max_output)
        if known.price.long is not None:
            above = _number(known.price.long_above)
            yield f"above {above} tokens", *_amounts(known.price.long), "", ""


def _obeys(dialect: ChatDialect) -> str:
    if dialect.native_output_with_tools:
        return "yes"
    return "while no tools are offered" if dialect.native_output else "not known to"


def _amounts(price: Price) -> Cells:
    write = _amount(price.cache_write)
    if price.cache_write_long is not None and price.cache_write_long != price.cache_write:
        write = f"{write}, to last {_amount(price.cache_write_long)}"
    return _amount(price.input), _amount(price.output), _amount(price.cache_read), write


def _amount(amount: Decimal | float | None) -> str:
    return "" if amount is None else f"{amount:g}"


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
