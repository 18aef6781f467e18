"""Loggers whose records show no secret that this process knows."""

from __future__ import annotations

import logging
import traceback

from treadle.values.secret import hidden


def logger(name: str) -> logging.Logger:
    """Return the logger of this name, such that its records are without secrets."""
    found = logging.getLogger(name)
    if _HIDING not in found.filters:
        found.addFilter(_HIDING)
    return found


class Hiding(logging.Filter):
    """Takes the secrets that this process knows out of records: of text, traceback and fields.

    Put it on a handler to have it for what other libraries log, too. A record without a secret
    stays as it is.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        said = record.getMessage()
        shown = hidden(said)
        if shown is not said:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
            shown = hidden(trace)
            if shown is not trace:
                record.exc_info, record.exc_text = None, shown
        return True


_HIDING = Hiding()
