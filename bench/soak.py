#!/usr/bin/env python3
"""Mixed load with faults for half an hour: resident memory over time, and what leaked.

    soak.py --model NAME=DIRECTORY=SHARE [--model ...] [--sprat build/asan/bin/sprat]
            [--minutes 30] [--rate 50] [--clients 8] [--out FILE]

The clients are those of tests/server/faulty_clients.py. Every half minute a line of JSON: seconds,
requests, resident bytes, faults. A program built with the address sanitizer ends with status 0 only
if nothing leaked. Exit status 1: a fault, a leak, or memory that is not flat within 2 %: the means
of the second and of the last quarter of the time are compared.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/server"))
from faulty_clients import FaultyClients  # noqa: E402: the path above makes it importable
from running_server import RunningServer  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sprat", default=ROOT / "build/asan/bin/sprat")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--out", type=argparse.FileType("a"), default=sys.stdout)
    args = parser.parse_args()

    shares, options = {}, ["--threads", "1"]
    for model in args.model:
        name, directory, share = model.split("=")
        shares[name] = float(share)
        options += ["--model", f"{name}={directory}"]
    # What was freed is held back by the sanitizer; little enough to be full soon.
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"
    server = RunningServer(args.sprat, None, *options, environment={"ASAN_OPTIONS": sanitizer})
    clients = FaultyClients(server, shares, args.clients, args.rate)
    clients.warm_up()
    seconds = args.minutes * 60
    begin = time.monotonic()
    load = threading.Thread(target=clients.run, args=(seconds,))
    load.start()
    samples = []
    while load.is_alive():
        load.join(min(30.0, seconds / 60))
        now = round(time.monotonic() - begin, 1)
        samples.append((now, server.resident_bytes()))
        done = sum(clients.counts.values())
        line = {"s": now, "requests": done, "rss": samples[-1][1], "faults": len(clients.faults)}
        print(json.dumps(line), file=args.out, flush=True)

    def mean_between(first, last):
        chosen = [rss for at, rss in samples if first * seconds <= at <= last * seconds]
        return statistics.mean(chosen)

    early, late = mean_between(0.25, 0.5), mean_between(0.75, 1.0)
    cancelled = server.metric("sprat_cancelled_total")
    status = server.close()
    summary = {
        "requests": sum(clients.counts.values()),
        "outcomes": {f"{kind} {outcome}": n for (kind, outcome), n in sorted(
            clients.counts.items(), key=str)},
        "cancelled": cancelled,
        "faults": clients.faults,
        "rss_second_quarter": round(early),
        "rss_last_quarter": round(late),
        "growth": round(late / early - 1, 5),
        "exit_status": status,
        "log": [line for line in server.log if "anitizer" in line or "leak" in line],
    }
    print(json.dumps(summary), file=args.out, flush=True)
    if clients.faults or status != 0 or late > 1.02 * early:
        sys.exit(1)


if __name__ == "__main__":
    main()
