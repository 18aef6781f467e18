"""Arithmetic from text, and nothing but arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import ToolError
from treadle.cli.calculator import calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("23 * 17", "391"),
        ("1 + 2 * (3 - 4) / 5", "0.6"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("2 ** 10", "1024"),
        ("2^10", "1024"),
        ("2 ** -1", "0.5"),
        ("0.1 + 0.2", "0.3"),
        ("10 / 2", "5"),
        ("1e20", "1e+20"),
        ("1,234 + 1,000,000", "1001234"),
        ("23 \u00d7 17 = ?", "391"),
        ("15% of 200", "30"),
        ("sqrt(16)", "4"),
        ("max(1, 2, 3) + min(4, 5)", "7"),
        ("log(8, 2)", "3"),
        ("round(2.567, 1)", "2.6"),
        ("factorial(20)", "2432902008176640000"),
        ("pow(2, 3) + gcd(12, 18) + hypot(3, 4) + floor(1.9) + abs(-1)", "21"),
        ("2 * pi", "6.28318530717959"),
    ],
)
def test_arithmetic(expression: str, value: str) -> None:
    """Expressions as people and models write them."""
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("1 / 0", "divides by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 10001", "too large"),
        ("factorial(100000)", "too large"),
        ("1e308 * 10", "too large"),
        ("*".join(["2 ** 9000"] * 2), "too large"),
        ("(-8) ** 0.5", "a root of a negative number is not real"),
        ("sqrt(-1)", "math domain error"),
        ("factorial(2.5)", "2.5 is no whole number"),
        ("sin(1, 2)", "takes one number"),
        ("abs()", "nothing to work on"),
        ("nothing(1)", "there is no function 'nothing'"),
        ("x + 1", "not arithmetic: 'x'"),
        ("True + 1", "no numbers"),
        ("'a' * 3", "not arithmetic"),
        ("[1] * 3", "not arithmetic"),
        ("(1).real", "not arithmetic"),
        ("max(*[1, 2])", "not arithmetic"),
        ("max(1, key=abs)", "not arithmetic"),
        ("__import__('os').system('true')", "not arithmetic"),
        ("(lambda: 1)()", "not arithmetic"),
        ("1 if 1 else 2", "not arithmetic"),
        ("1; 2", "invalid syntax"),
        ("", "invalid syntax"),
        ("((((", "was never closed"),
        ("(" * 400 + "1" + ")" * 400, "cannot be calculated"),
        ("1" * 1001, "longer than 1000 characters"),
    ],
)
def test_everything_else_is_refused(expression: str, told: str) -> None:
    """What is not arithmetic is not run, what is too large is not calculated."""
    with pytest.raises(ToolError, match=told):
        calculate(expression)


@given(st.text(alphabet="0123456789.+-*/%^() ,eisqrt", max_size=40))
def test_any_text_ends_soon(expression: str) -> None:
    """Whatever is written, the answer is a number or a text for the model."""
    try:
        answer = calculate(expression)
    except ToolError as error:
        answer = str(error)
    assert 0 < len(answer) < 4000
