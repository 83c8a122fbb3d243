#!/usr/bin/env python3
"""The server beside nginx: the same wrk loads both in turn, over loopback.

    serve_yardstick.py [--sprat PROGRAM] [--model DIRECTORY] [--rounds 3] [--seconds 3]

nginx (Debian's nginx-light, one worker) answers a fixed body of the size that Sprat's answer has:
what HTTP costs on this machine without any work behind it. Prints p50 and p99 latency and requests
a second at 1 and at 64 connections, the median of the rounds with the spread. Needs wrk and nginx.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "server"))
from running_server import RunningServer  # noqa: E402: the path above makes it importable

TEXT = "how do I reset my password"
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def start_nginx(folder, body, port):
    config = folder / "nginx.conf"
    (folder / "body.json").write_bytes(body)
    config.write_text(
        f"""worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
        events {{ worker_connections 2048; }}
        http {{ access_log off; keepalive_requests 1000000000; root {folder};
          client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
          fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
          open_file_cache max=10; default_type application/json;
          server {{ listen 127.0.0.1:{port}; error_page 405 =200 /body.json; }} }}"""
    )
    return subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)


def wrk(url, connections, seconds, script):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
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
    }


def measure(args, targets, script):
    """(connections, target) -> the measurements of all rounds."""
    results = {}
    for _ in range(args.rounds):
        for connections in (1, 64):
            for target, url in targets.items():
                measured = wrk(url, connections, args.seconds, script)
                results.setdefault((connections, target), []).append(measured)
    return results


def report(results):
    for (connections, target), rounds in results.items():
        cells = []
        for key, label in (("p50_us", "p50 us"), ("p99_us", "p99 us"), ("rate", "requests/s")):
            values = sorted(row[key] for row in rounds)
            cells.append(
                f"{label} {statistics.median(values):.0f} ({values[0]:.0f} to {values[-1]:.0f})"
            )
        print(f"{connections:3} connections, {target:5}: " + ", ".join(cells))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sprat", default="build/release/bin/sprat")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--port", type=int, default=18981, help="of nginx")
    parser.add_argument("--encoding", default="base64", choices=["base64", "float"])
    args = parser.parse_args()

    body = {"input": TEXT, "encoding_format": args.encoding}
    server = RunningServer(args.sprat, args.model)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)  # nginx's worker runs as another user
        answer = server.post("/v1/embeddings", body)
        nginx = start_nginx(folder, answer.body, args.port)
        script = folder / "post.lua"
        script.write_text(
            'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
            f"wrk.body = [==[{json.dumps(body)}]==]\n"
        )
        time.sleep(0.5)
        targets = {
            "nginx": f"http://127.0.0.1:{args.port}/",
            "sprat": f"http://127.0.0.1:{server.port}/v1/embeddings",
        }
        try:
            results = measure(args, targets, script)
        finally:
            nginx.terminate()
            nginx.wait()
            server.close()
    print(f"body {len(answer.body)} bytes, {args.rounds} rounds of {args.seconds} s, wrk -t1")
    report(results)


if __name__ == "__main__":
    main()
