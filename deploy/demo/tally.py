"""What a demo has shown so far: verdicts and signals as they are read back, and the closing table."""

from __future__ import annotations

from collections import defaultdict
from statistics import quantiles

from rich.table import Table

from loopwarden.schemas.signals import Signal
from loopwarden.schemas.verdicts import Verdict

_RunKey = tuple[str, str | None]


class Tally:
    """Counts verdicts and signals, each once, and how long after its event a verdict could be read."""

    def __init__(self) -> None:
        self.runs_by_detector: dict[str, set[_RunKey]] = defaultdict(set)
        self.verdicts_by_detector: dict[str, int] = defaultdict(int)
        self.warned: set[_RunKey] = set()
        self.blocked: set[_RunKey] = set()
        self.killed: set[_RunKey] = set()
        self.delays_s: list[float] = []
        self._seen: set[str] = set()

    def add_verdict(self, verdict: Verdict, delay_s: float) -> bool:
        """Count a verdict; return whether it is new."""
        if verdict.verdict_id in self._seen:
            return False
        self._seen.add(verdict.verdict_id)
        key = (verdict.session_id, verdict.run_id)
        self.runs_by_detector[verdict.detector].add(key)
        self.verdicts_by_detector[verdict.detector] += 1
        if verdict.level == "warning":
            self.warned.add(key)
        self.delays_s.append(delay_s)
        return True

    def add_signal(self, signal: Signal) -> bool:
        """Count a signal; return whether it is new."""
        if signal.signal_id in self._seen:
            return False
        self._seen.add(signal.signal_id)
        (self.killed if signal.action == "kill" else self.blocked).add((signal.session_id, signal.run_id))
        return True

    def table(self, runs: int, events: int) -> Table:
        """Return the closing table."""
        table = Table(show_header=False, title="What was seen", title_justify="left", title_style="bold")
        table.add_column(justify="left")
        table.add_column(justify="right")
        table.add_row("runs seen", str(runs))
        table.add_row("events", str(events))
        table.add_section()
        for detector, stuck in sorted(self.runs_by_detector.items()):
            verdicts = self.verdicts_by_detector[detector]
            table.add_row(f"loops: {detector}", f"{len(stuck)} runs, {verdicts} verdicts")
        table.add_section()
        table.add_row("runs warned about", str(len(self.warned)))
        table.add_row("runs sent a block signal", str(len(self.blocked)))
        table.add_row("runs sent a kill signal", str(len(self.killed)))
        if len(self.delays_s) > 1:
            table.add_section()
            percentiles = quantiles(self.delays_s, n=100, method="inclusive")
            table.add_row("from event to verdict, median", f"{percentiles[49] * 1000:.0f} ms")
            table.add_row("from event to verdict, 99 of 100 within", f"{percentiles[98] * 1000:.0f} ms")
        return table
