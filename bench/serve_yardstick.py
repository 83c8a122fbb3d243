#!/usr/bin/env python3
"""The server beside nginx: the same wrk loads both in turn, over loopback.

    serve_yardstick.py [--sprat PROGRAM] [--model MODEL] [--rounds 3] [--seconds 3]
                       [--encoding base64|float] [--history bench/history.jsonl]

nginx (Debian's nginx-light, one worker) answers a fixed body of the size that Sprat's answer has:
what HTTP costs on this machine without any work behind it. Prints p50 and p99 latency and requests
a second at 1 and at 64 connections, and what the engine needs for the same text without a server,
in each round: alone (us), and in batches of 64 (texts a second). client_cores in the history is
what wrk itself took. Needs wrk and nginx.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from http_load import ROOT, load_alternately, remember, write_post

sys.path.insert(0, str(ROOT / "tests/server"))
from running_server import RunningServer  # noqa: E402: the path above makes it importable

TEXT = "how do I reset my password"


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
          server {{ listen 127.0.0.1:{port}; error_page 405 =200 $uri; }} }}"""
    )
    return subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)


def engine_alone(args, folder):
    """{"p50_us": of one text, "bulk_texts_per_s": in batches of 64}, by sprat bench."""
    texts = folder / "texts"
    texts.write_text(TEXT + "\n")
    command = [args.sprat, "bench", "--model", args.model, "--texts", str(texts), "--json"]
    lines = subprocess.run(
        [*command, "--batch", "1,64", "--seconds", "2"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    rows = {row["batch"]: row for row in map(json.loads, lines) if "batch" in row}
    return {
        "p50_us": rows[1]["p50_us"],
        "bulk_texts_per_s": rows[64]["texts_per_s"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sprat", default="build/release/bin/sprat")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--port", type=int, default=18981, help="of nginx")
    parser.add_argument("--encoding", default="base64", choices=["base64", "float"])
    parser.add_argument("--history", type=pathlib.Path)
    args = parser.parse_args()

    body = {"input": TEXT, "encoding_format": args.encoding}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)  # nginx's worker runs as another user
        engines = []
        server = RunningServer(args.sprat, args.model)
        answer = server.post("/v1/embeddings", body)
        nginx = start_nginx(folder, answer.body, args.port)
        script = folder / "post.lua"
        write_post(script, body)
        time.sleep(0.5)
        targets = {
            "nginx": f"http://127.0.0.1:{args.port}/body.json",
            "sprat": f"http://127.0.0.1:{server.port}/v1/embeddings",
        }
        print(f"{args.model}, {args.encoding}: body of {len(answer.body)} bytes")
        try:
            results = load_alternately(
                targets, (1, 64), args.rounds, args.seconds, script,
                lambda: engines.append(engine_alone(args, folder)),
            )  # fmt: skip
        finally:
            nginx.terminate()
            nginx.wait()
            server.close()
    engine = {key: statistics.median(run[key] for run in engines) for key in engines[0]}
    print(f"the engine alone: {engine}")
    remember(args.history, body_bytes=len(answer.body), engine=engine, results=results)


if __name__ == "__main__":
    main()
