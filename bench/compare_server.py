#!/usr/bin/env python3
"""Sprat's server beside Python servers with the same weights, all f32 on the CPU.

    compare_server.py --rival-python PYTHON [--rivals onnxruntime,sentence-transformers,...]
                      [--connections 1,8,64,256] [--rounds 2] [--seconds 3]
                      [--sprat PROGRAM] [--model DIRECTORY] [--history bench/history.jsonl]

The rivals:
    onnxruntime            bench/rival_server.py: FastAPI, ONNX Runtime, a fused graph
    sentence-transformers  the same program with sentence-transformers, as people write it
    infinity-torch         infinity_emb (0.0.77) with its torch engine
    infinity-optimum       the same with ONNX Runtime, on a graph that bench/export_onnx.py makes
The same client, wrk, loads all in turn with single short texts, different ones. A vector of each is
first compared with the other's. PYTHON has the rivals' packages (fastapi uvicorn httptools uvloop
onnxruntime; sentence-transformers; infinity-emb[server,optimum,torch]==0.0.77 with
optimum[onnxruntime]<1.25 transformers<4.50 click<8.2 pyarrow<20 onnx); this program needs wrk, and
the packages of bench/compare_cpu.py to make the graph for `onnxruntime`.
"""

import argparse
import base64
import http.client
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
    body = {"model": "m", "encoding_format": "base64"}
    bodies = [json.dumps({**body, "input": text}) for text in texts]
    table = ", ".join(f"[==[{body}]==]" for body in bodies)
    path.write_text(
        f"local bodies = {{ {table} }}\nlocal n = 0\nfunction request()\n  n = n + 1\n"
        '  return wrk.format("POST", nil, {["Content-Type"] = "application/json"}, '
        "bodies[n % #bodies + 1])\nend\n"
    )


def vector(port, text):
    body = json.dumps({"model": "m", "input": text, "encoding_format": "base64"}).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/embeddings", body, head)
    with urllib.request.urlopen(request) as answer:
        row = json.load(answer)["data"][0]["embedding"]
    return numpy.frombuffer(base64.b64decode(row), dtype="<f4")


def command_of(rival, args, port):
    """How the rival is started, and with what in its environment."""
    program = [args.rival_python, ROOT / "bench/rival_server.py", rival, args.model, port]
    if rival == "onnxruntime":
        compare_cpu.OnnxRuntime(args.model, ROOT / "build/release", 1)  # makes the graph
        graph = ROOT / "build/release/bench/minilm_plain.onnx"
        return [*program, graph]
    if rival == "sentence-transformers":
        return program
    engine = rival.removeprefix("infinity-")
    model = args.model
    if engine == "optimum":
        model = ROOT / "build/rival_model"
        export = [args.rival_python, ROOT / "bench/export_onnx.py", args.model, model]
        subprocess.run(export, check=True)
    infinity = pathlib.Path(args.rival_python).parent / "infinity_emb"
    return [
        infinity, "v2", "--model-id", model, "--served-model-name", "m", "--engine", engine,
        "--device", "cpu", "--dtype", "float32", "--pooling-method", "mean",
        "--no-bettertransformer", "--no-compile",
        "--url-prefix", "/v1", "--host", "127.0.0.1", "--port", port, "--log-level", "warning",
    ]  # fmt: skip


OFFLINE = {"HF_HUB_OFFLINE": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0", "DO_NOT_TRACK": "1"}


class Rival:
    """A server of someone else's, until close()."""

    def __init__(self, name, args, port):
        command = [str(part) for part in command_of(name, args, port)]
        self.port = port
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            command, cwd=self._folder.name, env={**os.environ, **OFFLINE}
        )
        for _ in range(600):
            if self._process.poll() is not None:
                break
            try:
                vector(port, "are you there")
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
        self.close()
        raise RuntimeError(f"{name} does not answer")

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def compare(args, rivals, server):
    ports = {**{name: rival.port for name, rival in rivals.items()}, "sprat": server.port}
    for text in TEXTS:
        ours = vector(server.port, text)
        for name, rival in rivals.items():
            theirs = vector(rival.port, text)
            theirs = theirs / numpy.linalg.norm(theirs)  # not all of them normalise
            numpy.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5, err_msg=name)
    targets = {name: f"http://127.0.0.1:{port}/v1/embeddings" for name, port in ports.items()}
    connections = [int(n) for n in args.connections.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "post.lua"
        write_posts(script, TEXTS)
        return load_alternately(targets, connections, args.rounds, args.seconds, script)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    models = os.environ.get("SPRAT_MODELS", pathlib.Path.home() / ".cache/sprat/models")
    parser.add_argument("--rival-python", required=True, type=os.path.abspath)
    parser.add_argument("--rivals", default="onnxruntime")
    parser.add_argument("--rival-port", type=int, default=18982, help="of the first")
    parser.add_argument("--sprat", default=ROOT / "build/release/bin/sprat")
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path(models) / "all-MiniLM-L6-v2")
    parser.add_argument("--connections", default="1,8,64,256")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--history", type=pathlib.Path)
    args = parser.parse_args()

    args.model = args.model.absolute()
    rivals, server = {}, None
    try:
        for i, name in enumerate(args.rivals.split(",")):
            rivals[name] = Rival(name, args, args.rival_port + i)
        server = RunningServer(args.sprat, args.model)
        results = compare(args, rivals, server)
    finally:
        for rival in rivals.values():
            rival.close()
        if server is not None:
            server.close()
    remember(args.history, rival=args.rivals, results=results)


if __name__ == "__main__":
    main()
