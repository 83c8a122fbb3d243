#!/usr/bin/env python3
"""The server at twice its capacity, with a client that counts; then SIGTERM under that load.

    overload.py [--sprat PROGRAM] [--model MODEL] [--seconds 60] [--queue 128] [--apart]
                [--history bench/history.jsonl]

First the capacity: 64 connections that always have a request under way. Then requests arrive at
twice that rate whatever becomes of them, each with an id of its own. Fails if one is lost, answered
twice or answered with anything but 200 or 429; if the 99th percentile of the accepted, by
the server's clock, is beyond queue / capacity and a batch (with 50 % for a machine that the client
shares, 10 % apart); or if memory grows by more than 2 % once it has been touched. After SIGTERM every
request that the server had begun to read must be answered.

--apart: the server has one compute thread and the first CPU to itself, the client the second. Then
the bound holds as it is: what it is exceeded by without that, the client took.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import sys
import time

from http_load import ROOT, remember

sys.path.insert(0, str(ROOT / "tests/server"))
from running_server import RunningServer  # noqa: E402: the path above makes it importable

BODY = json.dumps({"input": "how do I reset my password", "encoding_format": "base64"}).encode()
HEAD = (
    "POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    "X-Request-Id: {}\r\nContent-Length: " + str(len(BODY)) + "\r\n\r\n"
)
BATCH = 64


class Client:
    """Keep-alive connections, as many as are needed."""

    def __init__(self, port):
        self.port = port
        self.idle = []
        self.sent = 0
        self.connections = 0  # opened so far
        self.statuses = collections.Counter()
        self.latencies = []  # of the accepted, ms
        self.server_times = []  # of the accepted, from the last byte to the answer, ms
        self.answered = collections.Counter()  # by id

    async def request(self):
        """Sends one request; returns its status, or None if the connection ended instead."""
        number = self.sent
        self.sent += 1
        begin = time.perf_counter()
        connection = None
        try:
            connection = self.idle.pop() if self.idle else await self.connect()
            reader, writer = connection
            writer.write(HEAD.format(f"r{number}").encode() + BODY)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            await reader.readexactly(int(fields["content-length"]))
        except (OSError, asyncio.IncompleteReadError):
            if connection is not None:
                connection[1].close()
            return None
        status = int(head.split(" ", 2)[1])
        self.answered[fields["x-request-id"]] += 1
        self.statuses[status] += 1
        if status == 200:
            self.latencies.append((time.perf_counter() - begin) * 1e3)
            self.server_times.append(float(fields["x-total-time"]))
        if fields.get("connection") == "close":
            writer.close()
        else:
            self.idle.append(connection)
        return status

    async def connect(self):
        self.connections += 1
        return await asyncio.open_connection("127.0.0.1", self.port)


async def capacity(port, seconds):
    client = Client(port)
    end = time.perf_counter() + seconds

    async def loop():
        while time.perf_counter() < end:
            await client.request()

    await asyncio.gather(*[loop() for _ in range(BATCH)])
    return client.statuses[200] / seconds


async def arrivals(client, rate, seconds):
    """Requests at this rate for so long, or until one finds no server; the tasks that they are."""
    begin = time.perf_counter()
    tasks = []
    while (now := time.perf_counter() - begin) < seconds:
        while len(tasks) < now * rate:
            tasks.append(asyncio.create_task(client.request()))
        await asyncio.sleep(0.002)
    return tasks


async def overload(server, args, rate):
    client = Client(server.port)
    await asyncio.gather(*await arrivals(client, 2 * rate, 10))  # memory for this load is touched
    before, connections = server.resident_bytes(), client.connections
    client.latencies.clear()
    client.server_times.clear()
    tasks = await arrivals(client, 2 * rate, args.seconds)
    outcomes = await asyncio.gather(*tasks)
    latencies, times = sorted(client.latencies), sorted(client.server_times)
    return client, {
        "sent": client.sent,
        "accepted": client.statuses[200],
        "rejected": client.statuses[429],
        "lost": outcomes.count(None),
        "answered_twice": sum(n > 1 for n in client.answered.values()),
        "accepted_per_s": round(len(latencies) / args.seconds, 1),
        "client_p50_ms": round(latencies[len(latencies) // 2], 1),
        "client_p99_ms": round(latencies[len(latencies) * 99 // 100], 1),
        "server_p99_ms": round(times[len(times) * 99 // 100], 1),
        "bound_ms": round((args.queue + BATCH) / rate * 1e3, 1),
        "rss_bytes": before,
        "rss_growth_bytes": server.resident_bytes() - before,
        "connections": [connections, client.connections],
    }


async def terminate(server, rate):
    """SIGTERM in the middle of the load: what became of the requests sent before it."""
    client = Client(server.port)
    load = asyncio.create_task(arrivals(client, rate, 1.5))
    await asyncio.sleep(1)
    sent = client.sent
    server.terminate()
    outcomes = await asyncio.gather(*await load)
    return {
        "sent_before_sigterm": sent,
        "unanswered_before_sigterm": outcomes[: sent - 1].count(None),
        "exit_status": server.process.wait(timeout=60),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sprat", default=ROOT / "build/release/bin/sprat")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--queue", type=int, default=128)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--history", type=pathlib.Path)
    args = parser.parse_args()
    options, prefix = ["--queue-requests", args.queue], []
    if args.apart:
        first, second, *_ = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {second})
        options, prefix = [*options, "--threads", 1], ["taskset", "-c", str(first)]
    server = RunningServer(args.sprat, args.model, *options, prefix=prefix)
    try:
        rate = asyncio.run(capacity(server.port, 3))
        client, result = asyncio.run(overload(server, args, rate))
        ended = asyncio.run(terminate(server, rate))
    finally:
        server.close()
    result = {"capacity_per_s": round(rate, 1), **result, **ended}
    print(json.dumps(result, indent=1))
    remember(args.history, results=result)
    good = (
        set(client.statuses) <= {200, 429}
        and result["rejected"] > 0
        and result["lost"] == result["answered_twice"] == 0
        and result["server_p99_ms"] <= (1.1 if args.apart else 1.5) * result["bound_ms"]
        and result["rss_growth_bytes"] <= 0.02 * result["rss_bytes"]
        and result["unanswered_before_sigterm"] == result["exit_status"] == 0
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
