"""Runs many scripted agents at once, so that their events interleave as those of a real fleet do.

Agents think between two steps, for a moment that differs each time. It is what makes a fleet: a few threads
serve dozens of sessions, and the recorded times are such that a person can follow them when they are played
as they are.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from loopwarden.deploy.fleet.event_log import EventLog
from loopwarden.deploy.fleet.expectations import EXPECTATIONS
from loopwarden.deploy.fleet.healthy import healthy_agent
from loopwarden.deploy.fleet.incidents import INCIDENT_AGENTS
from loopwarden.deploy.fleet.office import Office
from loopwarden.deploy.fleet.scripts import ScriptedAgent
from loopwarden.deploy.fleet.session import Session

#: What makes the recording that is committed.
DEFAULT_RUNS, DEFAULT_SEED = 300, 7

#: How many sessions are under way at the same time.
SESSIONS_AT_ONCE = 30

#: How many agents act at the same moment; the others think, or wait for their turn.
_THREADS = 4

#: How many runners the sessions are spread over.
RUNNERS = 4

#: How many runs the incidents alone make.
INCIDENT_RUNS = sum(len(expectation.run_ids) for expectation in EXPECTATIONS)


def make_fleet(runs: int, seed: int) -> list[ScriptedAgent]:
    """Return the agents of a fleet in the order in which they start: all incidents, healthy ones up to
    ``runs`` runs.

    Incidents with many calls start early, the others later, so that something happens most of the time and
    all end at about the same time.
    """
    calls = {session_id: expectation.calls for expectation in EXPECTATIONS for session_id in expectation.session_ids}
    agents = [healthy_agent(number + 1, seed) for number in range(runs - INCIDENT_RUNS)]
    early_first = sorted(INCIDENT_AGENTS, key=lambda agent: -calls[agent.session_id])
    for place, agent in enumerate(early_first):
        agents.insert(len(agents) * place * 2 // (3 * len(early_first)), agent)
    return agents


def play_fleet(
    agents: Iterable[ScriptedAgent],
    root: Path,
    log: EventLog,
    *,
    thinking_s: float,
    seed: int = 0,
    on_session_end: Callable[[Session], None] = lambda session: None,
) -> None:
    """Run all agents to their end in workspaces under ``root``, thinking ``thinking_s`` seconds on average.

    Raises what a broken script raises. Whatever happens, no child process and no service outlives the call.
    """
    with Office() as office:
        fleet = _Fleet(agents, root, log, office.port, thinking_s, seed)
        try:
            fleet.play(on_session_end)
        finally:
            for session in fleet.under_way:
                session.close()


class _Fleet:
    """A timetable: sessions whose agent thinks, by the moment when it goes on, and those that act just now."""

    def __init__(
        self,
        agents: Iterable[ScriptedAgent],
        root: Path,
        log: EventLog,
        office_port: int,
        thinking_s: float,
        seed: int,
    ) -> None:
        runners = itertools.cycle(f"runner-{number + 1}" for number in range(RUNNERS))
        # Lazily, so that a session's workspace exists only while it is under way.
        self._to_start = (Session(agent, next(runners), root, office_port, log) for agent in agents)
        self._thinking_s = thinking_s
        self._draw = random.Random(seed)  # noqa: S311 - how long an agent thinks, not secrecy
        self._turns = itertools.count()
        self._thinking: list[tuple[float, int, Session]] = []  # a heap; the turn decides between equal times
        self._acting: dict[Future[bool], Session] = {}
        self.under_way: set[Session] = set()

    def play(self, on_session_end: Callable[[Session], None]) -> None:
        with ThreadPoolExecutor(_THREADS) as threads:
            self._start_sessions()
            while self.under_way:
                self._let_act(threads)
                for session in self._wait():
                    self.under_way.remove(session)
                    session.close()
                    on_session_end(session)
                self._start_sessions()

    def _start_sessions(self) -> None:
        for session in itertools.islice(self._to_start, SESSIONS_AT_ONCE - len(self.under_way)):
            self.under_way.add(session)
            self._let_think(session)

    def _let_think(self, session: Session) -> None:
        due = time.monotonic() + self._thinking_s * self._draw.uniform(0.4, 1.6)
        heapq.heappush(self._thinking, (due, next(self._turns), session))

    def _let_act(self, threads: ThreadPoolExecutor) -> None:
        while self._thinking and len(self._acting) < _THREADS and self._pause_s() <= 0:
            _, _, session = heapq.heappop(self._thinking)
            self._acting[threads.submit(session.step)] = session

    def _pause_s(self) -> float:
        """Seconds until the next agent has finished thinking."""
        return self._thinking[0][0] - time.monotonic()

    def _wait(self) -> list[Session]:
        """Wait until something can be done; return the sessions that have come to their end."""
        someone_can_be_served = self._thinking and len(self._acting) < _THREADS
        timeout_s = max(0.0, self._pause_s()) if someone_can_be_served else None
        if not self._acting:
            time.sleep(timeout_s or 0)
            return []
        ended = []
        for step in wait(self._acting, timeout_s, FIRST_COMPLETED).done:
            session = self._acting.pop(step)
            if step.result():
                self._let_think(session)
            else:
                ended.append(session)
        return ended
