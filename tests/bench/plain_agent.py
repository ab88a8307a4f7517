"""The same job as anybody would write it with Faust at first: an agent that takes event by event, and a Faust table.

Decodes, folds and encodes with the very same core; only what is around it differs.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import faust

from loopwarden.streams.engine import Engine
from loopwarden.streams.ingest import Refusal, read_event
from loopwarden.streams.run import Run
from loopwarden.streams.settings import resolve
from loopwarden.streams.state import decode_run, encode_run
from loopwarden.streams.verdicts import Place, announce

bootstrap, events_name, verdicts_name, group, partitions, done_file = sys.argv[1:7]
total = int(sys.argv[7])

app = faust.App(
    group,
    broker=f"aiokafka://{bootstrap}",
    store="memory://",
    topic_partitions=int(partitions),
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_rebalance_timeout=10.0,
    web_enabled=False,
)
events = app.topic(events_name, key_type=bytes, value_type=bytes, value_serializer="raw", key_serializer="raw")
verdicts = app.topic(verdicts_name, key_type=bytes, value_type=bytes, value_serializer="raw")
table = app.Table("runs", key_type=bytes, value_type=bytes, partitions=int(partitions))
engine = Engine()
settings = resolve({"enabled": True}, {})[0].for_agent(None)
folded = 0


@app.agent(events)
async def fold(stream: Any) -> None:
    """Fold event by event."""
    global folded
    async for event in stream.events():
        message = event.message
        told = read_event(event.value)
        assert not isinstance(told, Refusal)
        key = f"{told.session_id}/{told.run_id}".encode()
        row = table.get(key)
        run = Run(told.session_id or "", told.run_id) if row is None else decode_run(row)
        decision = engine.fold(run, told, message.offset, int(message.timestamp * 1000), settings)
        if decision is not None:
            place = Place(message.topic, message.partition, message.offset, told.time, int(message.timestamp * 1000))
            verdict, _signal = announce(run, decision, settings, place, 86_400)
            if verdict is not None:
                await verdicts.send(key=message.key, value=verdict.message.encode())
        table[key] = encode_run(run)
        folded += 1
        if folded == 1 or folded == total:
            with open(done_file, "a", encoding="utf-8") as done:  # noqa: ASYNC230, PTH123 - twice in a run
                times = os.times()
                done.write(f"{folded} {times.elapsed} {times.user + times.system}\n")


if __name__ == "__main__":
    faust.Worker(app, loglevel="warning").execute_from_commandline()
