"""Tasks of healthy agents that gather data, keep notes and talk to people."""

from __future__ import annotations

import random

import msgspec

from loopwarden.deploy.fleet.office import OFFICE_URL, PAGES
from loopwarden.deploy.fleet.scripts import Call, Calls, Script, use
from loopwarden.deploy.fleet.workspace import Workspace

_PEOPLE = ("amir", "bea", "chidi", "dana", "emil", "farah", "goran", "hana", "ines", "jonas", "kaya", "liv")
_TOPICS = ("budget", "hiring", "launch", "office move", "training", "audit", "website", "summer party")
_VERBS = ("agree on", "prepare", "postpone", "review", "share", "finish")


def report_on_orders(_: Workspace, draw: random.Random) -> Script:
    """Fetch some pages of orders, add them up, write a report and read it back."""
    pages = sorted(draw.sample(range(1, PAGES + 1), k=draw.randrange(3, 8)))
    cents = 0
    rows = []
    for page in pages:
        outcome = yield from use("fetch", url=f"{OFFICE_URL}/orders?page={page}")
        orders = msgspec.json.decode(outcome.text)["orders"]
        page_cents = sum(order["cents"] * order["pieces"] for order in orders)
        cents += page_cents
        rows.append(f"| {page} | {len(orders)} | {page_cents / 100:.2f} |")
    name = f"orders-{pages[0]}-to-{pages[-1]}.md"
    table = "\n".join(["| page | orders | total |", "| --- | --- | --- |", *rows])
    yield from use("write", path=name, content=f"# Orders\n\n{table}\n\nIn all: {cents / 100:.2f}\n")
    yield from use("read", path=name)
    if draw.random() < 0.5:
        yield from use("exec", command=f"grep -c '^| [0-9]' {name}")


def look_up_customers(_: Workspace, draw: random.Random) -> Script:
    """Look up customers, several in one reply; some do not exist."""
    wanted = [f"C{number:03}" for number in draw.sample(range(1, 66), k=draw.randrange(5, 12))]
    known = []
    while wanted:
        size = draw.randrange(1, 5)
        together, wanted = wanted[:size], wanted[size:]
        urls = [f"{OFFICE_URL}/customers/{customer_id}" for customer_id in together]
        outcomes = yield Calls(tuple(Call("fetch", {"url": url}) for url in urls))
        known += [outcome.text for outcome in outcomes if outcome.details["status"] == 200]
    if draw.random() < 0.3:
        yield from use("write", path="customers.jsonl")  # forgets the content, is told, and does better
    yield from use("write", path="customers.jsonl", content="\n".join(known) + "\n")
    yield from use("exec", command='grep -o \'"town":"[A-Z][a-z]*"\' customers.jsonl | sort | uniq -c')


def fetch_a_busy_export(_: Workspace, draw: random.Random) -> Script:
    """Ask for an export that is still being prepared; have patience, then store it."""
    name = f"{draw.choice(_TOPICS).replace(' ', '-')}-{draw.randrange(10**8):08}"
    yield from use("session_status")
    outcome = yield from use("fetch", url=f"{OFFICE_URL}/export/{name}")
    while outcome.details["status"] == 503:
        yield from use("exec", command="sleep 0.02; echo waited")
        outcome = yield from use("fetch", url=f"{OFFICE_URL}/export/{name}")
    yield from use("write", path=f"exports/{name}.json", content=outcome.text)
    yield from use("exec", command=f"wc -c < exports/{name}.json")


def keep_notes(_: Workspace, draw: random.Random) -> Script:
    """Start a page of notes and add to it, point by point."""
    topic = draw.choice(_TOPICS)
    path = f"notes/{topic.replace(' ', '-')}-{draw.randrange(100)}.md"
    yield from use("write", path=path, content=f"# {topic.title()}\n\n(end)\n")
    for number in range(draw.randrange(3, 8)):
        person, verb, subject = draw.choice(_PEOPLE).title(), draw.choice(_VERBS), draw.choice(_TOPICS)
        point = f"{number + 1}. {person} will {verb} the {subject} plan"
        yield from use("edit", path=path, oldText="(end)", newText=f"{point}\n(end)")
        if draw.random() < 0.25:
            yield from use("read", path=path)
    yield from use("exec", command=f"grep -c '^[0-9]' {path}")


def tell_people(workspace: Workspace, draw: random.Random) -> Script:
    """Read who is concerned and send each a text of their own."""
    people = draw.sample(_PEOPLE, k=draw.randrange(3, 9))
    topic = draw.choice(_TOPICS)
    workspace.put("people.txt", "".join(f"{person} {draw.choice(_VERBS)} {topic}\n" for person in people))
    concerned = yield from use("read", path="people.txt")
    for line in concerned.text.splitlines():
        person, task = line.split(" ", maxsplit=1)
        text = f"Hi {person.title()}, could you {task} by {draw.choice(('Monday', 'Thursday', 'Friday'))}?"
        yield from use("message", action="send", channel=draw.choice(("desk", "mail")), to=person, text=text)
    yield from use("write", path="sent.md", content=f"Asked about {topic}: {', '.join(people)}.\n")
