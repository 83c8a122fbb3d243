#!/usr/bin/env python3
"""Sprat's server beside a Python server with the same weights, both f32 on the CPU.

    compare_server.py --rival-python PYTHON [--sprat PROGRAM] [--model DIRECTORY] [--rounds 2]
                      [--seconds 3] [--history bench/history.jsonl]

The rival is bench/rival_server.py: FastAPI and ONNX Runtime. The same client, wrk, loads both in
turn with single short texts, different ones, at 1, 8, 64 and 256 connections. A vector of one is
first compared with the other's. PYTHON has the rival's packages; this program needs wrk, and the
packages of bench/compare_cpu.py to make the rival's graph.
"""

import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import compare_cpu
import numpy
from http_load import ROOT, load_alternately, remember

sys.path.insert(0, str(ROOT / "tests/server"))
from running_server import RunningServer  # noqa: E402: the path above makes it importable

TEXTS = [
    "how do I reset my password", "opening hours on public holidays", "cheap flights to Lisbon",
    "the invoice is wrong", "is this jacket waterproof", "cancel my subscription please",
    "best way to learn linear algebra", "where is my parcel",
]  # fmt: skip


def write_posts(path, texts):
    """The script with which wrk posts the texts in turn."""
    bodies = [json.dumps({"input": text, "encoding_format": "base64"}) for text in texts]
    table = ", ".join(f"[==[{body}]==]" for body in bodies)
    path.write_text(
        f"local bodies = {{ {table} }}\nlocal n = 0\nfunction request()\n  n = n + 1\n"
        '  return wrk.format("POST", nil, {["Content-Type"] = "application/json"}, '
        "bodies[n % #bodies + 1])\nend\n"
    )


def vector(port, text):
    body = json.dumps({"input": text, "encoding_format": "base64"}).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/embeddings", body, head)
    with urllib.request.urlopen(request) as answer:
        row = json.load(answer)["data"][0]["embedding"]
    return numpy.frombuffer(base64.b64decode(row), dtype="<f4")


def start_rival(args, graph):
    script = ROOT / "bench/rival_server.py"
    rival = subprocess.Popen([args.rival_python, script, args.model, graph, str(args.rival_port)])
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{args.rival_port}/health").close()
            return rival
        except OSError:
            time.sleep(0.1)
    rival.kill()
    raise RuntimeError("the rival does not answer")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    models = os.environ.get("SPRAT_MODELS", pathlib.Path.home() / ".cache/sprat/models")
    parser.add_argument("--rival-python", required=True)
    parser.add_argument("--rival-port", type=int, default=18982)
    parser.add_argument("--sprat", default=ROOT / "build/release/bin/sprat")
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path(models) / "all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--history", type=pathlib.Path)
    args = parser.parse_args()

    compare_cpu.OnnxRuntime(args.model, ROOT / "build/release", 1)  # makes the graph
    rival = start_rival(args, ROOT / "build/release/bench/minilm_plain.onnx")
    server = RunningServer(args.sprat, args.model)
    targets = {
        "onnxruntime": f"http://127.0.0.1:{args.rival_port}/v1/embeddings",
        "sprat": f"http://127.0.0.1:{server.port}/v1/embeddings",
    }
    try:
        for text in TEXTS:
            ours, theirs = vector(server.port, text), vector(args.rival_port, text)
            numpy.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "post.lua"
            write_posts(script, TEXTS)
            results = load_alternately(
                targets, (1, 8, 64, 256), args.rounds, args.seconds, script
            )
    finally:
        rival.terminate()
        rival.wait()
        server.close()
    remember(args.history, rival="FastAPI, ONNX Runtime", results=results)


if __name__ == "__main__":
    main()
