"""Arithmetic from text, without running anything but arithmetic."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable

from treadle.errors import ToolError

MOST_CHARACTERS = 1000
MOST_BITS = 10_000  # of a whole number: about 3,000 digits
MOST_FACTORIAL = 500

Number = int | float

SPELLINGS = str.maketrans("\u00d7\u00b7\u00f7\u2212\u2013", "**/--")
"""Signs that people write, as Python writes them: times, dot, divided by, minus, dash."""
PERCENT = re.compile(r"(\d)\s*%\s*of\b", re.IGNORECASE)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def calculate(expression: str) -> str:
    """Return the value of an arithmetic expression as text.

    It may have numbers, `+ - * / // % **`, parentheses, the constants pi, e and tau and functions
    such as sqrt, round, min and log. `^` is a power, `5% of 80` is a share, and commas between
    thousands are read over.

    Raises:
        ToolError: it is something else, too large, or has no real value.
    """
    if len(expression) > MOST_CHARACTERS:
        raise ToolError(f"The expression is longer than {MOST_CHARACTERS} characters.")
    written = expression.translate(SPELLINGS).strip().rstrip("=? ")
    plain = PERCENT.sub(r"\1/100*", written.replace("^", "**"))
    if "(" not in plain:  # in a function's arguments a comma is no thousands separator
        plain = THOUSANDS.sub("", plain)
    try:
        value = _value(ast.parse(plain, mode="eval").body)
        return _text(value)
    except ZeroDivisionError:
        raise ToolError(f"{expression!r} divides by zero.") from None
    except OverflowError:
        raise ToolError(f"{expression!r} is too large to calculate.") from None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        problem = error.msg if isinstance(error, SyntaxError) else error
        raise ToolError(
            f"{expression!r} cannot be calculated ({problem}); write arithmetic like '23 * 17'."
        ) from None


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=bool()):
            raise ValueError("true and false are no numbers")
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in UNARY:
            return UNARY[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in BINARY:
            return _bounded(BINARY[type(sign)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _bounded(_call(name, [_value(each) for each in arguments]))
        case _:
            raise ValueError(f"not arithmetic: {ast.unparse(node)[:40]!r}")


def _call(name: str, numbers: list[Number]) -> Number:
    if not numbers:
        raise ValueError(f"{name}() has nothing to work on")
    if name in OF_SOME:
        return OF_SOME[name](numbers)
    if name not in OF_ONE:
        raise ValueError(f"there is no function {name!r}")
    if len(numbers) > 1:
        raise ValueError(f"{name}() takes one number")
    return OF_ONE[name](numbers[0])


def _power(left: Number, right: Number) -> Number:
    """Return a power; how large it will be is known before it is calculated."""
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        if left.bit_length() * right > MOST_BITS:
            raise OverflowError
        return left**right
    value: object = left**right
    if isinstance(value, complex):
        raise ValueError("a root of a negative number is not real")
    return _bounded(value) if isinstance(value, int | float) else math.nan


def _factorial(number: Number) -> int:
    if number > MOST_FACTORIAL:
        raise OverflowError
    return math.factorial(_whole(number))


def _whole(number: Number) -> int:
    if number != int(number):
        raise ValueError(f"{number} is no whole number")
    return int(number)


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise OverflowError
    return value


def _text(value: Number) -> str:
    """Return a number as people write it: 15 digits hide that 0.1 is not exact."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise OverflowError
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"


BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: _power,
}
UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: lambda number: number,
    ast.USub: lambda number: -number,
}
CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau}
OF_ONE: dict[str, Callable[[Number], Number]] = {
    "abs": abs,
    "acos": math.acos,
    "asin": math.asin,
    "atan": math.atan,
    "ceil": math.ceil,
    "cos": math.cos,
    "degrees": math.degrees,
    "exp": math.exp,
    "factorial": _factorial,
    "floor": math.floor,
    "ln": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "radians": math.radians,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
OF_SOME: dict[str, Callable[[list[Number]], Number]] = {
    "gcd": lambda numbers: math.gcd(*map(_whole, numbers)),
    "hypot": lambda numbers: math.hypot(*numbers),
    "log": lambda numbers: math.log(*numbers),
    "max": max,
    "min": min,
    "pow": lambda numbers: _power(*numbers),
    "round": lambda numbers: round(numbers[0], *map(_whole, numbers[1:])),
}
