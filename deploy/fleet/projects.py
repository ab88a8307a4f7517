"""Tiny Python projects with one bug each, for scripted agents to mend."""

from __future__ import annotations

import random
from dataclasses import dataclass

from loopwarden.deploy.fleet.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Project:
    """A module with its tests. ``wrong``: mends that look right and are not; ``bug`` and ``mend`` are lines of it."""

    module: str
    source: str
    bug: str
    mend: str
    wrong: tuple[str, ...]
    checks: tuple[str, ...]

    def lay_out(self, workspace: Workspace, draw: random.Random) -> None:
        """Write the project, with its bug in, into a workspace."""
        checks = draw.sample(self.checks, k=draw.randrange(2, len(self.checks) + 1))
        cases = "".join(
            f"\n    def test_case_{number}(self):\n        {check}\n" for number, check in enumerate(checks, start=1)
        )
        workspace.put(f"{self.module}.py", self.source.replace("MEND_ME", self.bug))
        workspace.put(
            f"test_{self.module}.py",
            f"import unittest\n\nfrom {self.module} import *\n\n\nclass Cases(unittest.TestCase):{cases}",
        )
        workspace.put("README.md", f"# {self.module}\n\nRun the tests: python -m unittest -q\n")


PROJECTS = (
    Project(
        "pricing",
        "def gross(net_cents, tax_percent):\n    MEND_ME\n",
        "return net_cents + net_cents * tax_percent // 10",
        "return net_cents + net_cents * tax_percent // 100",
        ("return net_cents * tax_percent // 100", "return net_cents + net_cents * tax_percent // 1000"),
        (
            "self.assertEqual(1190, gross(1000, 19))",
            "self.assertEqual(107, gross(100, 7))",
            "self.assertEqual(5500, gross(5000, 10))",
        ),
    ),
    Project(
        "calendars",
        "def is_leap(year):\n    MEND_ME\n",
        "return year % 4 == 0",
        "return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        ("return year % 4 == 0 and year % 100 != 0", "return year % 400 == 0"),
        (
            "self.assertEqual([False, True], [is_leap(1900), is_leap(2000)])",
            "self.assertEqual([False, True], [is_leap(2100), is_leap(2400)])",
            "self.assertEqual([True, True, False], [is_leap(2024), is_leap(1600), is_leap(1700)])",
        ),
    ),
    Project(
        "titles",
        'def slug(title):\n    """Return a title as it stands in an address."""\n    MEND_ME\n',
        'return title.lower().replace(" ", "_")',
        'return "-".join(title.lower().split())',
        ('return title.replace(" ", "-")', 'return title.lower().replace(" ", "-")'),
        (
            'self.assertEqual("blue-moon-rising", slug("Blue  Moon Rising"))',
            'self.assertEqual("a-day-out", slug(" A day   out"))',
            'self.assertEqual("ten-years", slug("Ten  Years "))',
        ),
    ),
    Project(
        "averages",
        "def median(values):\n    ordered = sorted(values)\n    half = len(ordered) // 2\n    MEND_ME\n",
        "return ordered[half]",
        "return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2",
        ("return (ordered[half - 1] + ordered[half]) / 2", "return ordered[half - 1]"),
        (
            "self.assertEqual([2.5, 3], [median([4, 1, 2, 3]), median([5, 1, 3])])",
            "self.assertEqual([15, 7], [median([10, 20]), median([7])])",
            "self.assertEqual([4.5, 9], [median([9, 1, 8, 1]), median([9, 10, 1])])",
        ),
    ),
    Project(
        "pages",
        "def chunks(items, size):\n    MEND_ME\n",
        "return [items[at : at + size] for at in range(0, len(items) - size, size)]",
        "return [items[at : at + size] for at in range(0, len(items), size)]",
        (
            "return [items[at : at + size] for at in range(0, len(items) - 1, size)]",
            "return [items[at : at + size + 1] for at in range(0, len(items), size)]",
        ),
        (
            "self.assertEqual([[1, 2], [3]], chunks([1, 2, 3], 2))",
            "self.assertEqual([[1]], chunks([1], 5))",
            "self.assertEqual([[1, 2, 3], [4, 5, 6], [7]], chunks([1, 2, 3, 4, 5, 6, 7], 3))",
        ),
    ),
    Project(
        "weather",
        "def celsius(fahrenheit):\n    MEND_ME\n",
        "return round(fahrenheit - 32 * 5 / 9, 1)",
        "return round((fahrenheit - 32) * 5 / 9, 1)",
        ("return round((fahrenheit - 32) * 9 / 5, 1)", "return round((fahrenheit + 32) * 5 / 9, 1)"),
        (
            "self.assertEqual(100.0, celsius(212))",
            "self.assertEqual(-40.0, celsius(-40))",
            "self.assertEqual(20.0, celsius(68))",
        ),
    ),
    Project(
        "letters",
        "from collections import Counter\n\n\ndef most_common(text):\n"
        "    letters = [c for c in text if c.isalpha()]\n    MEND_ME\n",
        "return max(letters)",
        "return Counter(c.lower() for c in letters).most_common(1)[0][0]",
        ("return Counter(letters).most_common(1)[0][0]", "return Counter(letters).most_common()[-1][0]"),
        (
            'self.assertEqual("a", most_common("AabBa bAa"))',
            'self.assertEqual("t", most_common("Tt Tt xX T"))',
            'self.assertEqual("o", most_common("OoO oz!z Oo"))',
        ),
    ),
    Project(
        "spans",
        "def overlap(first, second):\n    MEND_ME\n",
        "return first[1] > second[0]",
        "return first[0] < second[1] and second[0] < first[1]",
        ("return first[0] < second[0] < first[1]", "return first[1] > second[0] or second[1] > first[0]"),
        (
            "self.assertEqual([False, True], [overlap((5, 9), (1, 3)), overlap((2, 6), (1, 3))])",
            "self.assertEqual([False, True], [overlap((7, 8), (0, 7)), overlap((0, 9), (0, 9))])",
            "self.assertEqual([False, True], [overlap((4, 6), (1, 2)), overlap((3, 5), (1, 9))])",
        ),
    ),
)
