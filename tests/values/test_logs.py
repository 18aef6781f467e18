"""Log records without the secrets that a process knows."""

from __future__ import annotations

import logging

import pytest

from treadle.values.logs import Hiding, logger
from treadle.values.secret import know

WORD = "amber-lantern-41"


def test_records_of_our_loggers(caplog: pytest.LogCaptureFixture) -> None:
    """Text, arguments and tracebacks with their causes; a plain record is not touched."""
    know(WORD)
    log = logger("treadle.tests.logs")
    assert logger("treadle.tests.logs").filters == log.filters

    with caplog.at_level(logging.DEBUG):
        log.warning("key=%s", WORD)
        log.warning("plain %s", "words")
        try:
            try:
                raise ValueError(WORD)
            except ValueError as error:
                raise KeyError("other") from error
        except KeyError:
            log.exception("failed")

    assert WORD not in caplog.text
    first, second, third = caplog.records
    assert first.getMessage() == "key=***"
    assert (second.msg, second.args) == ("plain %s", ("words",))
    assert third.exc_info is None
    assert "ValueError: ***" in (third.exc_text or "")


def test_on_a_handler() -> None:
    """It hides what other libraries log."""
    know(WORD)
    said: list[str] = []

    class Sink(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    sink = Sink()
    sink.addFilter(Hiding())
    other = logging.getLogger("somebody.else")
    other.addHandler(sink)
    try:
        other.warning("GET /?key=%s", WORD)
        other.warning("too many: %s", WORD, WORD)
    finally:
        other.removeHandler(sink)

    assert said == ["GET /?key=***", "too many: %s ('***', '***')"]
