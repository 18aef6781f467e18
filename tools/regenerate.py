"""Write the reference pages from the code; with --check, refuse pages that have gone stale."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import msgspec

from tools.reference_commands import commands_below
from tools.reference_examples import AN_ERROR, AN_EVENT, SETTINGS
from tools.reference_rows import PRICE_HEADER, SERVER_HEADER, VENDORS, price_rows, server_rows
from treadle import (
    Agent,
    AskApproval,
    Conversation,
    Deny,
    Edit,
    Event,
    FileStore,
    Limits,
    MemoryStore,
    Middleware,
    ModelError,
    ModelSettings,
    PendingCall,
    Price,
    Prompt,
    Receipt,
    Retry,
    RunContext,
    RunResult,
    SQLiteStore,
    Tool,
    TreadleError,
    Usage,
    errors,
    events,
    open_store,
    tool,
)
from treadle.agent.options import ResumeOptions, RunOptions
from treadle.agent.run import Run
from treadle.models import Cache, Fallback, RateLimit
from treadle.ports.model import ModelProfile
from treadle.providers import Anthropic, Gemini, OpenAI, OpenAIResponses
from treadle.providers.prices import AS_OF, TABLE
from treadle.sandboxes import Sandbox, SandboxLimits
from treadle.state import ScopedState, State, TypedView, merge
from treadle.state.reducers import last_wins, union
from treadle.tools import Rule, Rules
from treadle.tools.conditions import CONDITIONS
from treadle.tools.tool import OPTION_FIELDS

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTE = "This page is made from the code by `tools/regenerate.py`."
OF_THE_LOOP = {"added_usage", "advice", "close", "take_advice", "touched", "writes"}
"""Members of `RunContext` that are there for the loop."""

Cells = tuple[str, ...]


def agents_page() -> str:
    """Return what an agent and a run are made of."""
    return page(
        "Agents and runs",
        section(Agent, table(("Field", "Type", "Default"), settings_of(Agent))),
        f"## Options of a run\n\n{prose(RunOptions)}\n\n"
        + table(("Option", "Type"), types_of(RunOptions).items()),
        f"## Options of a resume\n\n{prose(ResumeOptions)}\n\n"
        + table(("Option", "Type"), types_of(ResumeOptions).items()),
        section(Limits, table(("Field", "Type", "Default"), settings_of(Limits))),
        section(Run, table(("Member", "What it is"), members_of(Run))),
        section(RunResult, table(("Field", "Type", "Default"), settings_of(RunResult))),
        section(Usage, table(("Field", "Type", "Default"), settings_of(Usage))),
        section(Prompt, table(("Method", "What it does"), members_of(Prompt))),
        section(Middleware, table(("Hook", "What it does"), members_of(Middleware))),
    )


def conversations_page() -> str:
    """Return what conversations, decisions and stores are made of."""
    header = ("Member", "What it is")
    kinds = (Conversation, Receipt)
    fields = ("Field", "Type", "Default")
    return page(
        "Conversations and stores",
        *(section(kind, table(header, members_of(kind))) for kind in kinds),
        *(section(kind, table(fields, settings_of(kind))) for kind in (PendingCall, Edit, Deny)),
        f"## open_store\n\n{prose(open_store)}",
        *(f"## {kind.__name__}\n\n{prose(kind)}" for kind in (MemoryStore, FileStore, SQLiteStore)),
    )


def state_page() -> str:
    """Return what state, its branches and its typed views are made of."""
    header = ("Member", "What it is")
    inner = {"apply", "find", "fold", "packed", "put", "reduces", "write_of", "close", "writes"}
    sections = [
        section(kind, table(header, [row for row in members_of(kind) if row[0] not in inner]))
        for kind in (State, ScopedState, TypedView)
    ]
    functions = {"merge": merge, "union": union, "last_wins": last_wins}
    return page(
        "State",
        *sections,
        *(f"## {name}\n\n{prose(function)}" for name, function in functions.items()),
    )


def tools_page() -> str:
    """Return what a tool is made of, and what it gets."""
    wanted = ("name", "description", *OPTION_FIELDS)
    options = [row for row in settings_of(Tool) if row[0] in wanted]
    context = [row for row in members_of(RunContext) if row[0] not in OF_THE_LOOP]
    header = ("Option", "Type", "Default")
    conditions = [(kind.__name__, first_sentence(kind)) for kind in CONDITIONS]
    return page(
        "Tools",
        f"## tool\n\n{prose(tool)}",
        f"## Options of a tool\n\n{prose(Tool)}\n\n" + table(header, options),
        "`name` and `description` are those of the function unless they are given.",
        f"## Tool.from_schema\n\n{prose(Tool.from_schema)}",
        section(RunContext, table(("Member", "What it is"), context)),
        *(f"## {kind.__name__}\n\n{prose(kind)}" for kind in (AskApproval, Rules)),
        section(Rule, table(header, settings_of(Rule))),
        "## Conditions of rules\n\n" + table(("Condition", "What it is"), conditions),
        *(section(kind, table(header, settings_of(kind))) for kind in (Sandbox, SandboxLimits)),
    )


def models_page() -> str:
    """Return how models are set up."""
    kinds = (ModelSettings, OpenAI, OpenAIResponses, Anthropic, Gemini, Price, Retry, ModelProfile)
    header = ("Field", "Type", "Default")
    tables = [section(kind, table(header, settings_of(kind))) for kind in kinds]
    header = ("Argument", "Type", "Default")
    wrappers = (Fallback, RateLimit, Cache)
    more = (section(kind, table(header, arguments_of(kind))) for kind in wrappers)
    return page("Models", SETTINGS, *tables, *more)


def servers_page() -> str:
    """Return the servers that are known by name."""
    return page(
        "Servers by name",
        'A name goes into a string, `"groq:MODEL"`, or into `OpenAI("MODEL", server="groq")`: '
        "see [compatible servers](../how-to/compatible-servers.md).",
        table(SERVER_HEADER, server_rows()),
    )


def prices_page() -> str:
    """Return the prices and windows of common models."""
    return page(
        "Prices",
        f"What vendors listed on {AS_OF}, in US dollars for a million tokens on the standard tier. "
        "It holds on the vendor's own server; `price=` and `window=` overrule it.",
        "A date or `latest` at the end of a name does not matter. Where a cache price is missing, "
        "cached tokens cost what input costs.",
        *(f"## {VENDORS[each]}\n\n{table(PRICE_HEADER, price_rows(each))}" for each in TABLE),
    )


def events_page() -> str:
    """Return every event with its fields."""
    kinds = get_args(events.AnyEvent)
    return page(
        "Events",
        AN_EVENT,
        prose(events),
        "## Every event\n\n" + table(("Field", "Type"), types_of(Event).items()),
        *(
            f"## {kind.__name__}\n\n`{kind.type}`\n\n{prose(kind)}\n\n"
            + table(("Field", "Type"), own_fields(kind))
            for kind in kinds
        ),
    )


def errors_page() -> str:
    """Return the tree of errors."""
    rows = [(f"{indent}{kind.__name__}", first_sentence(kind)) for indent, kind in branches("")]
    widest = max(len(name) for name, _ in rows) + 2
    tree = "\n".join(f"{name:{widest}}{what}" for name, what in rows)
    parameters = inspect.signature(ModelError).parameters.values()
    given = [(each.name, each.annotation) for each in parameters if each.kind == each.KEYWORD_ONLY]
    return page(
        "Errors",
        AN_ERROR,
        f"```text\n{tree}\n```",
        f"## TreadleError\n\n{prose(TreadleError)}",
        f"## ModelError\n\n{prose(ModelError)}\n\n" + table(("Field", "Type"), given),
    )


def command_page() -> str:
    """Return the help of every command."""
    return page(
        "Command line",
        *(
            f"## {' '.join(('treadle', *words))}\n\n```text\n{text}```"
            for words, text in commands_below(())
        ),
    )


def extras_page() -> str:
    """Return the optional packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [
        (name, ", ".join(f"`{each}`" for each in needs), f'pip install ".[{name}]"')
        for name, needs in project["optional-dependencies"].items()
    ]
    core = ", ".join(f"`{each}`" for each in project["dependencies"])
    return page(
        "Extras",
        f"The core needs {core}, and Python {project['requires-python']}.",
        table(("Extra", "Brings", "Install, in a clone"), rows),
    )


PAGES: dict[str, Callable[[], str]] = {
    "agents.md": agents_page,
    "conversations.md": conversations_page,
    "state.md": state_page,
    "tools.md": tools_page,
    "models.md": models_page,
    "servers.md": servers_page,
    "prices.md": prices_page,
    "events.md": events_page,
    "errors.md": errors_page,
    "command-line.md": command_page,
    "extras.md": extras_page,
}


def page(title: str, *sections: str) -> str:
    """Return a page with a note on where it comes from."""
    return "\n\n".join((f"# {title}", NOTE, *sections)) + "\n"


def section(kind: type, content: str) -> str:
    """Return a class: its name, its docstring, and what it is made of."""
    return f"## {kind.__name__}\n\n{prose(kind)}\n\n{content}"


def table(header: Cells, rows: Iterable[Cells]) -> str:
    """Return a Markdown table; names and types stand in code."""
    lines = [header, ("---",) * len(header), *(marked(row, header) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def marked(row: Cells, header: Cells) -> Cells:
    """Return a row with everything but prose as code; bars would end a cell."""
    cells = (
        cell if name in PROSE or not cell else f"`{cell}`"
        for cell, name in zip(row, header, strict=True)
    )
    return tuple(cell.replace("|", "\\|") for cell in cells)


PROSE = {"What it is", "Brings", *SERVER_HEADER, *PRICE_HEADER}


def prose(thing: object) -> str:
    """Return a docstring as Markdown: its lists of errors and arguments become lists."""
    found: list[str] = []
    listing = code = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        code ^= line.startswith("```")
        heading = re.fullmatch(r"(Raises|Args):", line)
        if heading and not code:
            listing = True
            found += [f"{heading[1]}:", ""]
        elif listing and not code and (item := re.match(r"    (\w+): (.*)", line)):
            found.append(f"- `{item[1]}`: {item[2]}")
        else:
            found.append(f"  {line.strip()}" if listing and line.strip() else line)
    return "\n".join(found)


def first_sentence(thing: object) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def settings_of(kind: Any) -> Iterator[Cells]:
    """Yield name, type and default of each public field that a caller may give."""
    types = types_of(kind)
    if issubclass(kind, msgspec.Struct):
        for each in msgspec.structs.fields(kind):
            yield each.name, types[each.name], shown(each.default, each.default_factory)
        return
    for each in fields(kind):
        if each.init and not each.name.startswith("_"):
            yield each.name, types[each.name], shown(each.default, each.default_factory)


def arguments_of(kind: type) -> Iterator[Cells]:
    """Yield name, type and default of each argument of a class that is not made of its fields."""
    for name, each in inspect.signature(kind).parameters.items():
        default = MISSING if each.default is each.empty else each.default
        starred = "*" if each.kind is each.VAR_POSITIONAL else ""
        yield starred + name, str(each.annotation), shown(default, MISSING)


def shown(default: object, factory: object) -> str:
    """Return a default as it is written; "" when there is none."""
    if isinstance(default, str):
        return f'"{default}"'
    if default not in (MISSING, msgspec.NODEFAULT):
        if type(default).__module__.startswith("treadle"):
            return f"{type(default).__name__}()"
        return getattr(default, "__name__", None) or repr(default)
    if factory in (MISSING, msgspec.NODEFAULT):
        return ""
    return f"{getattr(factory, '__name__', 'value')}()"


def own_fields(kind: type) -> Iterator[Cells]:
    """Yield name and type of the fields and properties that an event adds to those of all."""
    yield from ((name, kind_of) for name, kind_of in types_of(kind).items() if name != "type")
    for name, member in vars(kind).items():
        if isinstance(member, property) and member.fget is not None:
            yield name, inspect.get_annotations(member.fget)["return"]


def types_of(kind: type) -> dict[str, str]:
    """Return the annotations of a class's own fields as text, with choices spelled out."""
    names = vars(sys.modules[kind.__module__])

    def spelled(word: re.Match[str]) -> str:
        choices = get_args(names.get(word[0])) if word[0] in names else ()
        plain = choices and all(isinstance(each, str) for each in choices)
        return " | ".join(f'"{each}"' for each in choices) if plain else word[0]

    return {
        name: re.sub(r"\b[A-Z]\w+", spelled, getattr(note, "__forward_arg__", str(note)))
        for name, note in inspect.get_annotations(kind).items()
    }


def members_of(kind: type) -> Iterator[Cells]:
    """Yield each public method and property, with what its docstring says first."""
    members: dict[str, Any] = dict(vars(kind))
    for name, member in members.items():
        if isinstance(member, classmethod):
            member = getattr(kind, name)
        if not name.startswith("_") and (isinstance(member, property) or callable(member)):
            yield name, first_sentence(member)


def branches(indent: str, kind: type[TreadleError] = TreadleError) -> Iterator[Any]:
    """Yield each error with the lines that lead to it, in the order in which they are defined."""
    yield indent, kind
    below = [each for each in kind.__subclasses__() if each.__module__ == errors.__name__]
    stem = indent.replace("├── ", "│   ").replace("└── ", "    ")
    for each in below:
        yield from branches(stem + ("└── " if each is below[-1] else "├── "), each)


def stale(folder: Path = REFERENCE) -> list[str]:
    """Say which pages are not what the code says, or belong to nothing."""
    found: list[str] = []
    for name, make in PAGES.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != make():
            found.append(f"{path}: stale; run tools/regenerate.py")
    strange = sorted({path.name for path in folder.glob("*.md")} - PAGES.keys())
    return found + [f"{folder / name}: made by nothing; delete it" for name in strange]


def write(folder: Path = REFERENCE) -> None:
    """Write all pages anew."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (folder / name).write_text(make(), encoding="utf-8")


def main(arguments: Sequence[str], folder: Path = REFERENCE) -> int:
    """Write the pages, or with --check only look at them; return the exit code."""
    if "--check" not in arguments:
        write(folder)
    wrong = stale(folder)
    print("\n".join(wrong) or f"reference: {len(PAGES)} pages are what the code says")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
