"""Numbers, counts and names as text: one function for each format.

Text for figures goes through ``prudent.display.figures.base.label``, text for pages through
``prudent.display.pages.tables.rich``, which escape what their medium would read as markup.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..types import Label


def number(value: float, digits: int = 4) -> str:
    """Return a number to ``digits`` significant digits, in positional notation from 1e-4 to 1e9.

    Examples
    --------
    >>> number(1234.56), number(0.012345), number(3e-9)
    ('1,235', '0.01235', '3e-09')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e9:
        return f"{value:.{digits}g}".replace("-", "−", int(value < 0))
    decimals = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text and float(value).is_integer() else text
    return text.replace("-", "−")


def mixture(names: Sequence[Label], chances: Sequence[float], most: int = 3) -> Label:
    """Return the one name that has all of the chances, or names with their shares, the largest first.

    Examples
    --------
    >>> mixture("ab", [0.4, 0.6]), mixture("ab", [0.0, 1.0]), mixture("ab", [0.998, 0.002])
    ('b 60%, a 40%', 'b', 'a >99%, b <1%')
    """
    order = sorted((i for i, chance in enumerate(chances) if chance > 1e-9), key=lambda i: -chances[i])
    if len(order) == 1:
        return names[order[0]]
    texts = []
    for i in order[:most]:
        share = f"{chances[i]:.0%}"
        texts.append(f"{names[i]} {({'0%': '<1%', '100%': '>99%'}).get(share, share)}")
    return ", ".join(texts) + (", ..." if len(order) > most else "")


def plus_minus(mean: float, half_width: float) -> str:
    """Return a mean and the half width of its interval, to the second significant digit of the half width.

    Examples
    --------
    >>> plus_minus(123.456, 2.345), plus_minus(2.0, float("nan"))
    ('123.5 ± 2.3', '2.000')
    """
    if not math.isfinite(half_width):
        return number(mean) if not float(mean).is_integer() else f"{mean:,.3f}"
    if half_width < 1e-4:
        return f"{number(mean, 2)} ± {number(half_width, 2)}"
    decimals = _decimals(half_width)
    return f"{mean:z,.{decimals}f} ± {half_width:,.{decimals}f}".replace("-", "−")


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number and its interval, to the second significant digit of the half width.

    Examples
    --------
    >>> with_interval(12.2519, 9.512, 15.034)
    '12.3 [9.5, 15.0]'
    """
    half_width = 0.5 * (high - low)
    if not math.isfinite(half_width) or half_width < 1e-4:
        return f"{number(value)} [{number(low)}, {number(high)}]"
    decimals = _decimals(half_width)
    return f"{value:z,.{decimals}f} [{low:z,.{decimals}f}, {high:z,.{decimals}f}]".replace("-", "−")


def number_format(sizes: Sequence[float]) -> Callable[[float], str]:
    """Return a function that writes numbers with two digits of the smallest positive finite size.

    Parameters
    ----------
    sizes : sequence of float
        Quantities that the digits must resolve, for instance standard deviations or differences.

    Examples
    --------
    >>> number_format([0.034, 1.0])(12.34567)
    '12.346'
    """
    smallest = min((size for size in sizes if 0.0 < size < math.inf), default=0.01)
    decimals = _decimals(smallest)
    return lambda value: f"{value:,.{decimals}f}" if decimals <= 12 and abs(value) < 1e9 else f"{value:.6g}"


def percent(share: float) -> str:
    """Return a share as a percentage with the digits that it has.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95%', '99.5%')
    """
    return f"{100 * share:g}%"


def chance(probability: float) -> str:
    """Return a probability as a percentage with the digits that tell it from 0 and 1.

    Examples
    --------
    >>> chance(0.123), chance(0.0002), chance(1e-9)
    ('12.3%', '0.02%', '1e-09')
    """
    rest = min(probability, 1.0 - probability)
    if 0.0 < rest < 5e-5:
        return f"{probability:.2g}" if probability < 0.5 else f"1 - {rest:.2g}"
    return f"{probability:.1%}" if rest >= 5e-4 or rest == 0.0 else f"{probability:.2%}"


def plural(count: float, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "row"), plural(1200, "more row"), plural(2.5, "observation")
    ('1 row', '1,200 more rows', '2.5 observations')
    """
    amount = f"{count:,.0f}" if count == round(count) else f"{count:,.4g}"
    return f"{amount} {noun}{'s' * (count != 1)}"


def listing(items: Iterable[object], longest: int = 10) -> str:
    """Return items separated by commas; after ``longest`` of them follows the number of the others.

    Examples
    --------
    >>> listing(["a", "b", "c"], longest=2)
    'a, b and 1 more'
    """
    texts = [str(item) for item in items]
    if len(texts) <= longest:
        return ", ".join(texts)
    return f"{', '.join(texts[:longest])} and {len(texts) - longest:,} more"


def name_of(kind: str, name: Label) -> str:
    """Return the name of a state, action or arm for a sentence: in quotes, or ``state 3`` for a number.

    Examples
    --------
    >>> name_of("state", 3), name_of("state", "ill")
    ('state 3', "'ill'")
    """
    return f"{kind} {name}" if isinstance(name, int) else repr(name)


def visible(text: str) -> str:
    r"""Return text in which control characters are written out, so that a name cannot steer a terminal.

    Lines and tabs stay; so do all letters.

    Parameters
    ----------
    text : str
        Text to print.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> print(visible("a\x1b[31mb"))
    a\x1b[31mb
    """
    return "".join(
        repr(sign)[1:-1] if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t" else sign
        for sign in text
    )


def shorten(name: object, longest: int = 28) -> str:
    """Return a name in at most ``longest`` characters: its beginning and its end.

    Examples
    --------
    >>> shorten("ward 14, patient type 143", 16)
    'ward 14…type 143'
    """
    text = str(name)
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2 - 1].rstrip(' ,')}…{text[-(longest // 2) :].lstrip()}"


def _decimals(size: float) -> int:
    """Return the number of decimals that shows two significant digits of ``size``."""
    return max(0, 1 - math.floor(math.log10(size)))
