"""Find the exact references in a text: what a summary must not spell otherwise.

Every pattern runs in time that grows with the text's length and no faster: repetitions are
possessive, and where one may fail it fails at once or after a bounded number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal

from treadle.compaction.units import is_unit

ReferenceKind = Literal[
    "urls", "emails", "paths", "dates", "amounts", "versions", "ids", "names", "numbers"
]
"""`amounts` are numbers with a unit or a currency, `ids` identifiers with a digit in them, `names`
those without, `numbers` any others."""
Found = tuple[ReferenceKind, str]

LONGEST = 2_048
"""Characters of a reference. What is longer is no reference but content."""
_LONGEST_TOKEN = 512
_LONGEST_ID = 160

_FAR_EAST = "\u1100-\u11ff\u2e80-\u2fff\u3040-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_AFTER_SCHEME = re.compile(r"://[^\s\"'<>`\\^\u3000-\u303f\uff00-\uffef]++")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{1,23}\Z")
_STEP = r"[^\\/:*?\"<>|\s\u3000-\u303f\uff00-\uffef"
_WINDOWS = re.compile(
    rf"[A-Za-z]:\\{{1,2}}(?:{_STEP}]+(?: {_STEP}]+){{0,4}}+\\{{1,2}})*+{_STEP},;()'`]*+"
)
_SHARE = re.compile(rf"\\\\[A-Za-z0-9._$\-]++(?:\\{_STEP},;()'`]++)++")
_QUOTED = re.compile(r"""(["'`])((?:/|~/|\./|\.\./)[^"'`\n]{2,300}+)\1""")
_TOKEN = re.compile(
    r"[^\s\"'`<>(){}\[\]\\,;|=*\u201c\u201d\u2018\u2019\u00ab\u00bb"
    r"\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f\uff08\uff09\u300c-\u3011]++"
)
_TELLING = re.compile(r"[0-9_/@#]|\.\w")
_EASTERN = re.compile(f"[{_FAR_EAST}]++")

_OPENING = {")": "(", "]": "[", "}": "{"}

_MONTHS = (
    "Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    "Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?"
)
_OTHER_MONTHS = (
    "Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|"
    "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre|"
    "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|"
    "gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|"
    "janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro"
)
_END = r"(?![\w]|[.:/\-][0-9])"
"""Where a number ends that is no part of a longer one."""
_NAMED_DATES = (
    re.compile(
        rf"(?:{_MONTHS})\.? [0-9]{{1,2}}(?:st|nd|rd|th)?{_END}(?:,? [0-9]{{4}}{_END})?",
    ),
    re.compile(
        r"[0-9](?<![\w.:/\-][0-9])[0-9]?(?:st|nd|rd|th|\.)? (?:de )?"
        rf"(?:{_MONTHS}|{_OTHER_MONTHS})\b\.?(?:,? (?:de )?[0-9]{{4}}{_END})?"
    ),
)
_EASTERN_DATE = re.compile(
    r"[0-9]{4}\s?年(?:\s?\d{1,2}\s?月(?:\s?\d{1,2}\s?日)?)?"
    r"|[0-9]{1,2}\s?月\s?\d{1,2}\s?日"
)
_NUMBER = re.compile(
    r"[0-9$€£¥₹+\-\u2212](?<![A-Za-z0-9_./\\@#\-][\s\S])"
    r"(?:(?<=[0-9])|(?<=[+\-\u2212])[$€£¥₹]?[0-9]|(?<=[$€£¥₹]) ?-?[0-9])"
    r"[0-9]*+(?:[.:/'\-][0-9]++|,[0-9]{3}(?![0-9])|,[0-9]{1,2}(?![0-9.,]))*+"
    r"(?:(?:T|(?<=[0-9]{4}-[0-9]{2}-[0-9]{2}) )[0-9]{1,2}:[0-9:.]*[0-9]"
    r"(?:Z| UTC|[+\-][0-9]{2}:?[0-9]{2})?)?+"
    r"(?:(?<=[0-9])[ \u00a0\u202f]?(?:[A-Za-zµμΩ%‰°€$£¥₹/²³]++|[\u4e00-\u9fff]{1,2}))?+"
)
_SPLIT_UNIT = re.compile(r"(.*[0-9])([ \u00a0\u202f]?)(\D*)")
_PLAIN = re.compile(r"[0-9]++\.[0-9]++")
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_BARE = re.compile(r"[0-9.,:/+\-]+")
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:[\d:.]+(?:Z| UTC|[+\-]\d{2}:?\d{2})?)?"
    r"|\d{8}T\d{4,6}Z?|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}\.\d{1,2}\.\d{4}"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z)?|\d{4}-(?:0[1-9]|1[0-2])|\d{4}-W\d{2}"
)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?")
_VERSION = re.compile(r"[vV]?\d+(?:\.\d+){2,4}(?:[\-+][0-9A-Za-z.+\-]+)?|[vV]\d+(?:\.\d+){0,3}")
_PINNED = re.compile(r"@?[\w.\-/]*[A-Za-z][\w.\-/]*@[\^~]?v?\d[\w.\-+]*")
_EMAIL = re.compile(r"[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+")
_REMOTE = re.compile(r"[\w.+\-]+@[\w.\-]+:[\w./~\-]+")
_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]*:\d{2,5}(?:/\S*)?")
_URN = re.compile(r"(?:arn|urn|did|sha\d+|md5|spiffe):[\w.:/+\-@]+")
_LINE_OF = re.compile(r":\d+(?:[:\-]\d+)*:?\Z")
_FILE = re.compile(
    r"[\w@~+.\-]*\w\.(?:py|pyi|ipynb|js|mjs|jsx|ts|tsx|java|kt|go|rs|rb|php|c|h|cc|cpp|hpp|cs|swift"
    r"|sh|bash|ps1|bat|sql|db|sqlite|html?|css|scss|vue|json|jsonl|ya?ml|toml|ini|cfg|conf|env|xml"
    r"|csv|tsv|parquet|xlsx?|docx?|pptx?|odt|ods|pdf|md|rst|txt|log|tex|bib|png|jpe?g|gif|svg|webp"
    r"|bmp|tiff?|ico|mp[34]|wav|ogg|flac|mov|avi|mkv|webm|zip|t?gz|tar|bz2|xz|7z|rar|whl|jar|exe"
    r"|dll|so|dylib|deb|rpm|iso|img|pem|crt|key|lock|bak|tmp|proto|tf|dockerfile|patch|diff)",
    re.IGNORECASE,
)
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.)+(?:com|org|net|io|dev|edu|gov|mil|int|info"
    r"|biz|app|ai|co|eu|de|fr|uk|ch|at|nl|be|es|it|pl|se|no|fi|dk|cz|pt|ru|ua|cn|jp|kr|in|au|nz|ca"
    r"|us|br|mx|local|internal|lan|test|example)(?::\d{2,5})?"
)
_SHAPED = re.compile(r"#?[A-Za-z0-9_$%&]+(?:[.\-:/+@~][A-Za-z0-9_$%&]+)*")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s|x|k|m)|\d+-[a-z]+|[a-z]+-\d", re.IGNORECASE)


def find_references(text: str, *, said: bool = True) -> list[Found]:
    """Return each exact reference in a text once, those of one kind in the order they appear.

    Bare numbers are looked for only where somebody has `said` the text: in what a tool returned
    they mean nothing on their own.
    """
    found: dict[str, ReferenceKind] = {}
    for kind, value in _all(text, said=said):
        if 1 < len(value) <= LONGEST:
            found.setdefault(value, kind)
    return [(kind, value) for value, kind in found.items()]


def _all(text: str, *, said: bool) -> Iterator[Found]:
    for kind, without in _TAKEN_OUT:
        values, text = without(text)
        for value in values:
            yield kind, value
    for number in dict.fromkeys(_NUMBER.findall(text)):
        if (found := _in_number(number)) is not None and (said or found[0] != "numbers"):
            yield found
    for token in dict.fromkeys(_tokens(text)):
        if not token.isdigit() and len(token) <= _LONGEST_TOKEN and _TELLING.search(token):
            yield from _in_token(token)


def _tokens(text: str) -> Iterator[str]:
    for word in dict.fromkeys(text.split()):
        if not word.isalpha() and _TELLING.search(word):
            yield from _TOKEN.findall(word)


def _without_urls(text: str) -> tuple[list[str], str]:
    if "://" not in text:
        return [], text
    urls: list[str] = []
    rest: list[str] = []
    end = 0
    for match in _AFTER_SCHEME.finditer(text):
        scheme = _SCHEME.search(text[max(end, match.start() - 24) : match.start()])
        if scheme is None:
            continue
        url = _closed(scheme[0] + match[0][:LONGEST])
        if len(url) < LONGEST:
            urls.extend(_as_seen(url))
        start = match.start() - len(scheme[0])
        rest.append(text[end:start])
        end = start + len(url)
    return urls, " ".join((*rest, text[end:]))


def _closed(url: str) -> str:
    """Return a URL without the punctuation of the sentence around it."""
    for mark in ("](", "),", ");", "},", "],"):  # Markdown, and lists in code
        head, found, _ = url.partition(mark)
        left = _OPENING[mark[0]]
        if found and head.count(left) <= head.count(mark[0]):
            url = head
    while True:
        bare = url.rstrip(".,;:!?*|")
        for right, left in _OPENING.items():
            if bare.endswith(right):
                many = bare.count(right) - bare.count(left)
                last = len(bare) - len(bare.rstrip(right))
                bare = bare[: len(bare) - max(0, min(many, last))]
        if bare == url:
            return url
        url = bare


def _as_seen(value: str) -> Iterator[str]:
    """Yield a value; and without what follows in a script that sets no blanks, if it may be so."""
    yield value
    cut = None if value.isascii() else _EASTERN.search(value)
    if cut is not None and cut.start() > 3:
        yield value[: cut.start()].rstrip(".,;:!?")


def _without_spaced_paths(text: str) -> tuple[list[str], str]:
    """Return paths that may have blanks in them, and the text without them."""
    paths: list[str] = []

    def take(match: re.Match[str]) -> str:
        path = match[match.lastindex or 0].rstrip(".:!? ")
        if len(path) <= 3 or (match.lastindex and " " not in path):
            return match[0]
        paths.append(path)
        return " "

    if ":\\" in text:
        text = _WINDOWS.sub(take, text)
    if "\\\\" in text:
        text = _SHARE.sub(take, text)
    if "/" in text:
        text = _QUOTED.sub(take, text)
    return paths, text


def _without_named_dates(text: str) -> tuple[list[str], str]:
    dates: list[str] = []

    def take(match: re.Match[str]) -> str:
        dates.append(match[0])
        return " "

    for pattern in _NAMED_DATES:
        text = pattern.sub(take, text)
    if "年" in text or "月" in text:
        text = _EASTERN_DATE.sub(take, text)
    return dates, text


def _in_number(text: str) -> Found | None:
    """Return what a number is, with what stands after it where that is its unit."""
    if text.isdigit() or _PLAIN.fullmatch(text):
        return ("numbers", text) if len(text) > 2 else None
    if len(text) > _LONGEST_TOKEN:
        return None
    time, utc, _ = text.partition(" UTC")
    if utc:
        text = time + utc  # what stands after it is no unit
    if text[-1] in "0123456789Z" or utc:
        number, unit = text, ""
    else:
        split = _SPLIT_UNIT.fullmatch(text)
        if split is None:
            return None
        number, blank, unit = split.groups()
        if unit and is_unit(unit):
            return "amounts", f"{number}{blank}{unit}"
        if unit[:1].isascii() and not blank:
            return None  # the beginning of an identifier
    if number[0] in "$€£¥₹" or number[1:2] in tuple("$€£¥₹"):
        return "amounts", number
    return _kind_of_bare(number)


def _kind_of_bare(number: str) -> Found | None:
    if _DATE.fullmatch(number):
        return "dates", number
    bare = number.lstrip("+-\u2212")
    if _ADDRESS.fullmatch(bare):
        return "ids", bare
    if _VERSION.fullmatch(bare):
        return "versions", bare
    digits = sum(map(str.isdigit, bare))
    if digits >= 7 and ("-" in bare or number[0] == "+"):
        return "ids", number
    if "/" in bare or ":" in bare or "-" in bare:
        return None
    return ("numbers", number) if digits >= 3 or "." in bare else None


def _in_token(token: str) -> Iterator[Found]:
    token = token.lstrip(":!?-\u2013\u2014").rstrip(".:!?\u2026-")
    if not token.isascii() and _EASTERN.search(token):
        if _is_path(token):
            start = 0 if token[0] == "/" else _start_of_path(token)
            path, *shorter = _as_seen(token[start:])
            yield "paths", path
            for each in shorter:
                if "." in each:
                    yield "paths", each
            return
        for piece in _EASTERN.split(token):
            yield from _in_ascii(piece.strip(".:!?"))
        return
    yield from _in_ascii(token)


def _start_of_path(token: str) -> int:
    """Return where a path begins that follows a script which sets no blanks."""
    script = _EASTERN.match(token)
    return script.end() if script is not None and token[script.end() :][:1] in "/~." else 0


def _in_ascii(token: str) -> Iterator[Found]:
    if len(token) < 2 or _BARE.fullmatch(token):
        return
    kind = _kind_of(token)
    if kind is not None:
        yield kind, _LINE_OF.sub("", token) if kind == "paths" else token
    elif ":" in token and "\\" not in token:
        for piece in token.split(":"):
            yield from _in_ascii(piece)
    elif "@" in token[1:] and (mail := _EMAIL.search(token)):
        yield "emails", mail[0]


def _kind_of(token: str) -> ReferenceKind | None:  # noqa: PLR0911 a table would be slower
    if "@" in token:
        if _PINNED.fullmatch(token):
            return "versions"
        if _EMAIL.fullmatch(token):
            return "emails"
        if _REMOTE.fullmatch(token):
            return "urls"
    elif ":" in token and (_URN.fullmatch(token) or _PORT.fullmatch(token)):
        return "dates" if _DATE.fullmatch(token) else "ids"
    if ("/" in token or "." in token) and (kind := _kind_of_parted(token)) is not None:
        return kind
    if _DIGIT.search(token) is None:
        return "names" if _is_name(token) else None
    if _VERSION.fullmatch(token):
        return "versions"
    if _DATE.fullmatch(token):
        return "dates"
    return "ids" if _is_id(token) else None


def _kind_of_parted(token: str) -> ReferenceKind | None:
    """Return what a token with slashes or dots in it is."""
    if "/" not in token and _VERSION.fullmatch(token):
        return "versions"
    if _is_path(token):
        return "paths"
    return "urls" if _HOST.fullmatch(token) else None


def _is_path(token: str) -> bool:
    token = _LINE_OF.sub("", token)
    if "/" not in token:
        return _FILE.fullmatch(token) is not None
    if ":" in token or not any(map(str.isalnum, token)):
        return False
    if token.startswith(("/", "~/", "./", "../")):
        return token.count("/") > 1 or len(token) > 3
    last = token.rpartition("/")[2]
    return token.count("/") > 1 or _FILE.fullmatch(last) is not None


_TAKEN_OUT: tuple[tuple[ReferenceKind, Callable[[str], tuple[list[str], str]]], ...] = (
    ("urls", _without_urls),
    ("paths", _without_spaced_paths),
    ("dates", _without_named_dates),
)
"""What may have blanks in it or hold what looks like something else: it is taken out first."""


def _is_id(token: str) -> bool:
    """Whether a token with a digit is an identifier: `ORD-7731`, `a1b2c3d`, `row_12`, `#481`."""
    if len(token) > _LONGEST_ID or ":" in token or not _SHAPED.fullmatch(token):
        return False
    if token[0] == "#" or "_" in token:
        return True
    if _LETTER.search(token) is None or _ORDINAL.fullmatch(token):
        return False
    return len(token) > 4 if "-" not in token else len(token) > 3


def _is_name(token: str) -> bool:
    """Whether a token without digits is an identifier: `max_turns`, `API_KEY`."""
    if "_" not in token or len(token) > _LONGEST_ID or ":" in token or token.startswith("__"):
        return False
    return _SHAPED.fullmatch(token) is not None
