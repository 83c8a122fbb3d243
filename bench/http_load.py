"""What the benchmarks of the server share: load over loopback, and the line in the history."""

import datetime
import json
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def write_post(path, body):
    """The script with which wrk posts `body` as JSON."""
    path.write_text(
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        f"wrk.body = [==[{json.dumps(body)}]==]\n"
    )


def load(url, connections, seconds, script):
    """One run of `wrk -t1`: p50_us, p99_us, rate (requests/s), and the cores that wrk itself took.

    Every answer must be a 200.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    before = children_cpu_seconds()
    text = subprocess.run(
        [*command, "-s", str(script), url], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(text)

    def percentile(name):
        value, unit = re.search(rf"^\s+{name}\s+([\d.]+)(us|ms|s)", text, re.MULTILINE).groups()
        return float(value) * UNITS[unit]

    return {
        "p50_us": percentile("50%"),
        "p99_us": percentile("99%"),
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
        "client_cores": (children_cpu_seconds() - before) / seconds,
    }


def children_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def load_alternately(targets, connections, rounds, seconds, script, each_round=lambda: None):
    """For each number of connections and target: the medians over the rounds, and their spread."""
    measured = {}
    for _ in range(rounds):
        each_round()
        for n in connections:
            for target, url in targets.items():
                measured.setdefault((n, target), []).append(load(url, n, seconds, script))
                # A server may still work on what its clients no longer wait for, at the cost of the
                # next one: a lone request comes back when it is done with that.
                if n > 1:
                    load(url, 1, 1, script)
    results = []
    for (n, target), runs in measured.items():
        row = {"connections": n, "server": target}
        for key in ("p50_us", "p99_us", "rate"):
            values = sorted(run[key] for run in runs)
            row[key] = round(statistics.median(values), 1)
            row[key + "_range"] = [round(values[0], 1), round(values[-1], 1)]
        row["client_cores"] = round(statistics.median(run["client_cores"] for run in runs), 3)
        results.append(row)
        print(
            f"{n:3} connections, {target:12}: p50 {row['p50_us']:.0f} us, p99 {row['p99_us']:.0f} us, "
            f"{row['rate']:.0f} requests/s ({row['rate_range'][0]:.0f} to {row['rate_range'][1]:.0f})",
            flush=True,
        )
    return results


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def remember(history, **measured):
    """Appends a line to the history file, if one was asked for."""
    if history is None:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True
    ).stdout.strip()
    line = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit,
        "cpu": cpu_name(),
        "command": f"bench/{pathlib.Path(sys.argv[0]).name} " + " ".join(sys.argv[1:]),
        **measured,
    }
    with open(history, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
