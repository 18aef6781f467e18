"""Loggers whose records show no secret that this process knows."""

from __future__ import annotations

import logging
from collections.abc import Callable

from treadle.values.secret import hidden


def logger(name: str) -> logging.Logger:
    """Return the logger of this name, such that its records are without secrets."""
    found = logging.getLogger(name)
    if _HIDING not in found.filters:
        found.addFilter(_HIDING)
    return found


class Hiding(logging.Filter):
    """Takes secrets out of the text and the traceback of records: by default those known here.

    Put it on a handler to have it for what other libraries log, too; it does not look at fields
    that are given as `extra`. A record without a secret stays as it is. `shown` returns a text
    without secrets.
    """

    def __init__(self, shown: Callable[[str], str] = hidden) -> None:
        super().__init__()
        self._shown = shown

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        said = _said(record)
        shown = self._shown(said)
        if shown != said:
            record.msg, record.args = shown, None
        if record.exc_info:
            trace = _FORMATTER.formatException(record.exc_info)
            shown = self._shown(trace)
            if shown != trace:
                record.exc_info, record.exc_text = None, shown
        return True


def _said(record: logging.LogRecord) -> str:
    """Return the text of a record, with its arguments behind it where they do not fit it."""
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return f"{record.msg} {record.args!r}"


_FORMATTER = logging.Formatter()


_HIDING = Hiding()
