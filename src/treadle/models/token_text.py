"""About how many tokens a text has, told from what kinds of bytes stand beside each other.

No tokenizer is asked and nothing is downloaded. The weights were fitted to the tokenizer of GPT-4o
and later over prose, code, JSON, tables, logs, random base64 and some forty languages; a model
whose tokenizer is another one is a constant factor away, which is learnt (`models.calibration`).
Letters that do not make words, as in base64, change their case often, and so weigh more.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase, digits

TOKEN = 1_000
"""Weights are thousandths of a token, so that sums are exact in any order."""

_LETTER, _SPACE, _CAPITAL, _LINE = 217, 102, 1_087, 419
_DIGIT, _NUMBER, _AFTER_DIGIT = 300, 1_203, 300
_SIGN, _SIGNS = 235, 357
_SCRIPTS: tuple[tuple[range, int], ...] = (
    (range(0xC2, 0xC3), 112),  # signs of Latin 1
    (range(0xC3, 0xCD), 1_378),  # letters with accents, which cost the words they stand in, too
    (range(0xCD, 0xD0), 363),  # Greek
    (range(0xD0, 0xD4), 290),  # Cyrillic
    (range(0xD4, 0xE2), 363),  # Hebrew, Arabic, the scripts of India, Thai, Vietnamese
    (range(0xE2, 0xE3), 112),  # dashes, quotes, arrows, boxes
    (range(0xE3, 0xE4), 685),  # kana, and the signs of Chinese and Japanese
    (range(0xE4, 0xEA), 740),  # Chinese characters
    (range(0xEA, 0xEE), 677),  # Korean
    (range(0xEE, 0xEF), 2_275),  # private use
    (range(0xEF, 0xF0), 900),  # full width
    (range(0xF0, 0x100), 2_275),  # emoji, rare characters
)
"""What a character weighs, by the first byte of its UTF-8."""

_REST = bytes(range(0xC2))
"""Bytes that begin no character of these."""


def _table(*kinds: tuple[str, str], other: str) -> bytes:
    """Return what each byte is translated to."""
    table = bytearray(other.encode() * 0x80 + b"c" * 0x80)
    for characters, kind in kinds:
        for each in characters.encode():
            table[each] = ord(kind)
    return bytes(table)


_KINDS = _table(
    *((ascii_lowercase, "a"), (ascii_uppercase, "A"), (digits, "0")),
    *((" ", " "), ("\r\n", "\n"), ("\t", " ")),
    other=".",
)
_SIGNS_ONLY = bytes(0x2E if kind == 0x2E else 0x20 for kind in _KINDS)
_DIGITS_ONLY = bytes(0x30 if kind == 0x30 else 0x20 for kind in _KINDS)
_PIECE = 1 << 16
"""So many characters at a time: what is made of them stays in the processor's cache."""
_script = bytearray(256)
for _number, (_bytes, _) in enumerate(_SCRIPTS):
    _script[_bytes.start : _bytes.stop] = bytes([_number]) * len(_bytes)
_SCRIPT = bytes(_script)


def weigh(text: str) -> int:
    """Return about how many thousandths of a token a text has; some for any but the empty one.

    Halves of surrogate pairs count as the characters that stand in for them.
    """
    if len(text) <= _PIECE:
        return _weigh(text)
    return sum(_weigh(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))


def tokens_of_text(text: str) -> int:
    """Return about how many tokens a text has, at least 1 for any but the empty one."""
    return -(-weigh(text) // TOKEN)


def _weigh(text: str) -> int:
    raw = text.encode("utf-8", "surrogatepass")
    kinds = raw.translate(_KINDS)
    others = kinds.translate(None, b"aA")  # all but letters: far shorter in most texts
    weight = (
        (len(raw) - len(others)) * _LETTER
        + others.count(b" ") * _SPACE
        + kinds.count(b"aA") * _CAPITAL
        + others.count(b".") * _SIGN
        + (b" " + raw.translate(_SIGNS_ONLY)).count(b" .") * _SIGNS
        + (others.count(b"\n") - others.count(b"\n\n")) * _LINE
    )
    if numerals := others.count(b"0"):
        numbers = (b" " + raw.translate(_DIGITS_ONLY)).count(b" 0")
        after = kinds.count(b"0a") + kinds.count(b"0A")
        weight += numerals * _DIGIT + numbers * _NUMBER + after * _AFTER_DIGIT
    if len(raw) != len(text):
        firsts = raw.translate(_SCRIPT, _REST)
        weight += sum(firsts.count(n) * each for n, (_, each) in enumerate(_SCRIPTS))
    return max(weight, 1) if text else 0
