"""Tasks of healthy agents that work on code, logs and jobs."""

from __future__ import annotations

import random

from loopwarden.deploy.fleet.projects import PROJECTS
from loopwarden.deploy.fleet.scripts import Call, Calls, Script, use
from loopwarden.deploy.fleet.workspace import Workspace

_RUN_TESTS = "python -m unittest -q"
_WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven"),
    *("inlet", "jetty", "knoll", "lagoon", "meadow", "north", "orbit", "pier"),
)


def mend_a_project(workspace: Workspace, draw: random.Random) -> Script:
    """Find out why a test fails, try a mend or two, end with passing tests."""
    project = draw.choice(PROJECTS)
    project.lay_out(workspace, draw)
    source, tests = f"{project.module}.py", f"test_{project.module}.py"
    yield from use("exec", command="ls -1")
    if draw.random() < 0.3:
        yield from use("run_tests", module=project.module)  # a tool that agents often believe they have
    failed = yield from use("exec", command=_RUN_TESTS)
    yield Calls((Call("read", {"path": source}), Call("read", {"path": tests})))
    line = project.bug
    attempts = [*draw.sample(project.wrong, k=draw.randrange(len(project.wrong) + 1)), project.mend]
    while failed.details["exitCode"] and attempts:
        attempt = attempts.pop(0)
        yield from use("edit", path=source, oldText=line, newText=attempt)
        line = attempt
        failed = yield from use("exec", command=_RUN_TESTS)
        if failed.details["exitCode"] and draw.random() < 0.5:
            yield from use("read", path=source)
    entry = f"- {project.module}: {line}\n"
    yield from use("write", path="CHANGES.md", content=f"# Changes\n\n{entry}")


def explore_a_tree(workspace: Workspace, draw: random.Random) -> Script:
    """Look through a tree of documents and write down what is in it."""
    top = f"{draw.choice(_WORDS)}-docs"
    for folder in draw.sample(_WORDS, k=draw.randrange(2, 5)):
        for name in draw.sample(_WORDS, k=draw.randrange(2, 5)):
            lines = [f"{draw.choice(_WORDS)} {draw.choice(_WORDS)} {draw.randrange(100)}" for _ in range(6)]
            mark = "\nTODO: check the numbers" if draw.random() < 0.3 else ""
            workspace.put(f"{top}/{folder}/{name}.md", f"# {name.title()}\n\n" + "\n".join(lines) + mark + "\n")
    if draw.random() < 0.4:
        yield from use("read", path=f"{top}/README.md")  # not there
    listing = yield from use("exec", command=f"find {top} -name '*.md' | LC_ALL=C sort")
    paths = listing.text.splitlines()
    draw.shuffle(paths)
    notes = []
    while paths:
        together, paths = paths[: draw.randrange(1, 4)], paths[4:]
        outcomes = yield Calls(tuple(Call("read", {"path": path}) for path in together))
        notes += [f"- {outcome.text.splitlines()[0][2:]}: {len(outcome.text)} characters" for outcome in outcomes]
    yield from use("exec", command=f"grep -rc '' {top} | LC_ALL=C sort")
    open_points = yield from use("exec", command=f"grep -rl TODO {top} | LC_ALL=C sort")
    summary = "\n".join(["# What is here", "", *notes, "", "Open:", open_points.text])
    yield from use("write", path=f"summary-of-{top}.md", content=summary + "\n")


def rename_a_setting(workspace: Workspace, draw: random.Random) -> Script:
    """Rename a setting in all files that name it, with one edit a file."""
    old, new = draw.sample(_WORDS, k=2)
    files = [f"settings/{draw.choice(_WORDS)}-{number}.ini" for number in range(draw.randrange(4, 9))]
    for number, path in enumerate(files):
        workspace.put(path, f"[service {number}]\n{old}_limit = {draw.randrange(10, 99)}\nretries = {number}\n")
    found = yield from use("exec", command=f"grep -rn {old}_limit settings | LC_ALL=C sort")
    for line in found.text.splitlines():
        path, _number, text = line.split(":", maxsplit=2)
        yield from use("edit", path=path, oldText=text, newText=text.replace(f"{old}_limit", f"{new}_limit"))
        if draw.random() < 0.3:
            yield from use("read", path=path)
    left = yield from use("exec", command=f"grep -rl {old}_limit settings || echo none left")
    assert left.text == "none left", left.text


def wait_for_a_job(workspace: Workspace, draw: random.Random) -> Script:
    """Start a job over some files, poll it until it is done, look at its log and its result."""
    parts = draw.randrange(4, 16)
    folder = f"batch-{draw.randrange(100, 999)}"
    for number in range(parts):
        workspace.put(f"{folder}/{number:02}.txt", " ".join(draw.choices(_WORDS, k=draw.randrange(20, 60))) + "\n")
    command = (
        f"for part in {folder}/*.txt; do read -r go; count=$(($(wc -w < $part))); "
        f'echo "$part $count" >> {folder}/counts; echo "$part done, $count words"; done; read -r go'
    )
    started = yield from use("process", action="start", command=command, paced=True)
    name = started.details["sessionId"]
    status = "running"
    while status == "running":
        if draw.random() < 0.1:
            yield from use("session_status")
        polled = yield from use("process", action="poll", sessionId=name)
        status = polled.details["status"]
    yield from use("process", action="log", sessionId=name)
    yield from use("exec", command=f"awk '{{ words += $2 }} END {{ print words }}' {folder}/counts")


def sift_a_log(workspace: Workspace, draw: random.Random) -> Script:
    """Narrow down what went wrong in a log, one shell command after the other."""
    levels = ("INFO", "INFO", "INFO", "WARN", "ERROR")
    lines = [
        f"{line // 8:02}:{line % 8 * 7:02} {draw.choice(levels)} {draw.choice(_WORDS)} took {draw.randrange(900)} ms"
        for line in range(192)
    ]
    workspace.put("service.log", "\n".join(lines) + "\n")
    yield from use("exec", command="wc -l < service.log")
    yield from use("exec", command="cut -d' ' -f2 service.log | sort | uniq -c")
    worst = yield from use(
        "exec", command="grep ERROR service.log | cut -d' ' -f3 | sort | uniq -c | sort -rn | head -3"
    )
    for line in worst.text.splitlines():
        part = line.split()[-1]
        yield from use("exec", command=f"grep 'ERROR {part}' service.log")
        if draw.random() < 0.5:
            yield from use("exec", command=f"grep -c ' {part} ' service.log")
    if draw.random() < 0.3:
        yield from use("exec", command="tail -f service.log", timeoutMs=120)  # never ends by itself
    yield from use("read", path="service.log", offset=draw.randrange(1, 150), limit=12)
    yield from use("write", path="findings.md", content=f"# Most errors\n\n{worst.text}\n")
