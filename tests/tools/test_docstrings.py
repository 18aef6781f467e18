"""Docstrings: each style gives descriptions, and what is in no style stays text."""

from __future__ import annotations

import inspect

import pytest

from treadle.tools.docstrings import describe

GOOGLE = """Find flights.

    Only direct ones,
    cheapest first.

    Note:
        Prices change.

    Args:
        city (str): City name, for
            example "Paris".
        unit: Unit: C or F.
        **more: Anything else.

    Returns:
        The flights.

    Raises:
        ValueError: never.
    """

NUMPY = """Find flights.

    Only direct ones,
    cheapest first.

    Parameters
    ----------
    city : str
        City name, for
        example "Paris".
    unit, more : {'C', 'F'}, optional
        Unit: C or F.

    Returns
    -------
    list
        The flights.

    Notes
    -----
    Prices change.
    """

SPHINX = """Find flights.

    Only direct ones,
    cheapest first.

    :param city: City name, for
        example "Paris".
    :param str unit: Unit: C or F.
    :type city: str
    :returns: The flights.
    :raises ValueError: never.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_style_describes_parameters(docstring: str) -> None:
    """The text stays free of the sections, and wrapped lines are joined."""
    found = describe(inspect.cleandoc(docstring))

    assert found.text.startswith("Find flights.\n\nOnly direct ones,\ncheapest first.")
    assert found.parameters["city"] == 'City name, for example "Paris".'
    assert found.parameters["unit"] == "Unit: C or F."
    assert "The flights" not in found.text
    assert "ValueError" not in found.text


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY], ids=["google", "numpy"])
def test_notes_stay(docstring: str) -> None:
    """What the model should heed is kept, and names that share an entry each get it."""
    found = describe(inspect.cleandoc(docstring))

    assert "Prices change." in found.text
    assert "more" in found.parameters


def test_examples_stay() -> None:
    """An example is for the model, in either form."""
    numpy = "Add.\n\nParameters\n----------\na : int\n    A.\n\nExamples\n--------\n>>> add(1)\n2"

    assert (
        describe("Add.\n\nArgs:\n    a: A.\n\nExample:\n    add(1)").text
        == "Add.\n\nExamples:\nadd(1)"
    )
    assert describe(numpy).text == "Add.\n\nExamples:\n>>> add(1)\n2"


@pytest.mark.parametrize(
    "docstring",
    [
        "Just text.",
        "Two.\n\nParagraphs: here.",
        "Bad.\n\nArgs:\n    no colon here",
        "Odd\n\n:smile: face",
        "",
    ],
)
def test_other_text_is_all_description(docstring: str) -> None:
    """Nothing is lost from a docstring that follows no style."""
    assert describe(docstring).text == docstring
    assert describe(docstring).parameters == {}


def test_lists_in_a_description_keep_their_lines() -> None:
    """Only wrapped lines are joined."""
    found = describe("Go.\n\nArgs:\n    how: One of\n        - fast\n        - slow")

    assert found.parameters["how"] == "One of\n- fast\n- slow"
