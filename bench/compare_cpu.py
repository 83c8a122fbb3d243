#!/usr/bin/env python3
"""Times Sprat and ONNX Runtime, both f32, on the CPU: token ids to vectors of all-MiniLM-L6-v2.

    compare_cpu.py [--model DIR] [--build build/release] [--threads 1 2] [--seconds 1.5]
                   [--history bench/history.jsonl] [--check]

Both run in this one call, alternately, with the same number of threads on the same ids: single
queries of 8, 16, 32 and 128 tokens, and bulk of about 32 and about 128 tokens a text. Prints
minimum, median and 99th percentile, and appends one JSON object to the history. Fails if a vector
of one differs from the other's, and with --check if Sprat is slower anywhere.

The rival's graph is made from the same safetensors file, already fused (EmbedLayerNormalization,
Attention, SkipLayerNormalization, BiasGelu of ONNX Runtime's contrib operators, as its own
transformer optimiser leaves a BERT), and kept in the build directory. In bulk, its texts are sorted
by length, padded and masked, and of several batch sizes the fastest counts; its single queries run
without a mask. Needs numpy, onnx, onnxruntime, safetensors.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

os.environ.pop("OPENBLAS_CORETYPE", None)

import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import safetensors.numpy  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MICROSOFT = "com.microsoft"
QUERY_TOKENS = [8, 16, 32, 128]
# Name -> lengths of the texts of one bulk run.
BULK = {
    "32": [24 + i % 17 for i in range(96)],
    "128": [112 + i % 33 for i in range(24)],
}
RIVAL_BATCHES = [1, 4, 8, 16]


class Graph:
    """Collects the nodes and weights of an ONNX graph."""

    def __init__(self) -> None:
        self.nodes, self.weights = [], []

    def weight(self, name: str, values) -> str:
        self.weights.append(numpy_helper.from_array(numpy.ascontiguousarray(values), name))
        return name

    def node(self, op: str, inputs: list[str], domain: str = "", outputs: int = 1, **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names


def fused_bert(tensors: dict, config: dict, masked: bool) -> onnx.ModelProto:
    g = Graph()
    eps = config["layer_norm_eps"]

    def take(name: str):
        return tensors[name if name in tensors else "bert." + name]

    def put(name: str) -> str:
        return g.weight(name, take(name))

    def put_transposed(name: str) -> str:
        return g.weight(name, take(name).T)

    inputs = ["ids", "types"] + [
        put(f"embeddings.{table}_embeddings.weight") for table in ("word", "position", "token_type")
    ] + [put("embeddings.LayerNorm.weight"), put("embeddings.LayerNorm.bias")]  # fmt: skip
    x, mask_index = g.node(
        "EmbedLayerNormalization", inputs + (["mask"] if masked else []), MICROSOFT, 2, epsilon=eps
    )
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        self = layer + "attention.self."
        parts = [self + part for part in ("query", "key", "value")]
        qkv = numpy.concatenate([take(part + ".weight").T for part in parts], axis=1)
        bias = numpy.concatenate([take(part + ".bias") for part in parts])
        heads = g.node(
            "Attention",
            [x, g.weight(self + "qkv", qkv), g.weight(self + "bias", bias)]
            + (["mask"] if masked else []),
            MICROSOFT,
            num_heads=config["num_attention_heads"],
        )
        for block, name, norm in (
            ("attention", layer + "attention.output.dense", layer + "attention.output.LayerNorm"),
            ("ffn", layer + "output.dense", layer + "output.LayerNorm"),
        ):
            y = heads
            if block == "ffn":
                up = g.node("MatMul", [x, put_transposed(layer + "intermediate.dense.weight")])
                y = g.node("BiasGelu", [up, put(layer + "intermediate.dense.bias")], MICROSOFT)
            y = g.node("MatMul", [y, put_transposed(name + ".weight")])
            x = g.node(
                "SkipLayerNormalization",
                [y, x, put(norm + ".weight"), put(norm + ".bias"), put(name + ".bias")],
                MICROSOFT,
                epsilon=eps,
            )
    if masked:
        mask = g.node("Cast", ["mask"], to=TensorProto.FLOAT)
        axis = g.weight("axis2", numpy.array([2], dtype=numpy.int64))
        x = g.node("Mul", [x, g.node("Unsqueeze", [mask, axis])])
        sums = g.node("ReduceSum", [x, g.weight("axis1", numpy.array([1], dtype=numpy.int64))],
                      keepdims=0)  # fmt: skip
        pooled = g.node(
            "Div", [sums, g.node("ReduceSum", [mask, "axis1"], keepdims=1)]
        )
    else:
        pooled = g.node("ReduceMean", [x, g.weight("axis1", numpy.array([1], dtype=numpy.int64))],
                        keepdims=0)  # fmt: skip
    vector = g.node("LpNormalization", [pooled], axis=1, p=2)
    g.nodes.append(helper.make_node("Identity", [vector], ["vector"]))
    names = ["ids", "types"] + (["mask"] if masked else [])
    graph = helper.make_graph(
        g.nodes,
        "bert",
        [helper.make_tensor_value_info(n, TensorProto.INT32, ["B", "S"]) for n in names],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["B", config["hidden_size"]])],
        g.weights,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


class OnnxRuntime:
    def __init__(self, model: pathlib.Path, build: pathlib.Path, threads: int) -> None:
        config = json.loads((model / "config.json").read_text())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.sessions = {}
        for masked in (False, True):
            path = build / f"bench/minilm_{'masked' if masked else 'plain'}.onnx"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                tensors = safetensors.numpy.load_file(model / "model.safetensors")
                onnx.save(fused_bert(tensors, config, masked), path)
            self.sessions[masked] = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        self.batch = 1

    def _one(self, batch: list[list[int]]):
        width = max(map(len, batch))
        ids = numpy.zeros((len(batch), width), dtype=numpy.int32)
        mask = numpy.zeros_like(ids)
        for row, sequence in enumerate(batch):
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        feeds = {"ids": ids, "types": numpy.zeros_like(ids)}
        padded = not mask.all()
        if padded:
            feeds["mask"] = mask
        return self.sessions[padded].run(None, feeds)[0]

    def run(self, sequences: list[list[int]], iterations: int):
        ordered = sorted(sequences, key=len)
        times = []
        for _ in range(iterations):
            start = time.perf_counter()
            for first in range(0, len(ordered), self.batch):
                rows = self._one(ordered[first : first + self.batch])
            times.append((time.perf_counter() - start) * 1e3)
        return times, (rows[0] if len(sequences) == 1 else self._one([sequences[0]])[0])


class Sprat:
    def __init__(self, model: pathlib.Path, build: pathlib.Path, threads: int) -> None:
        self.process = subprocess.Popen(
            [build / "bin/encoder_rounds", model, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, sequences: list[list[int]], iterations: int):
        text = " , ".join(" ".join(map(str, sequence)) for sequence in sequences)
        self.process.stdin.write(f"{iterations} {text}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["ms"], numpy.array(answer["vector"], dtype=numpy.float32)


def ids_of(length: int, seed: int) -> list[int]:
    random = numpy.random.default_rng(seed)
    return [101, *random.integers(1996, 29000, length - 2).tolist(), 102]


def alternate(engines: dict, sequences: list[list[int]], seconds: float, rounds: int) -> dict:
    """Rounds of one engine after the other, each for its share of `seconds`."""
    times = {name: [] for name in engines}
    vectors = {}
    per_round = {}
    for name, engine in engines.items():
        warm, vectors[name] = engine.run(sequences, 2)
        per_round[name] = max(1, int(seconds * 1e3 / rounds / min(warm)))
    if not numpy.allclose(*vectors.values(), rtol=0, atol=2e-5):
        sys.exit("the engines disagree about a vector")
    for _ in range(rounds):
        for name, engine in engines.items():
            time.sleep(0.02)  # for the other's threads to stop spinning
            times[name] += engine.run(sequences, per_round[name])[0]
    return times


def summary(times: list[float]) -> dict:
    p50, p99 = numpy.percentile(times, [50, 99])
    return {"min": round(min(times), 3), "p50": round(p50, 3), "p99": round(p99, 3)}


def cpu_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measure(args, threads: int):
    """Yields a result for each size, as it is measured."""
    rival = OnnxRuntime(args.model, args.build, threads)
    engines = {"sprat": Sprat(args.model, args.build, threads), "onnxruntime": rival}
    for tokens in QUERY_TOKENS:
        times = alternate(engines, [ids_of(tokens, tokens)], args.seconds, 5)
        row = {name: summary(t) for name, t in times.items()}
        yield {"threads": threads, "query_tokens": tokens, "ms": row}
    for name, lengths in BULK.items():
        sequences = [ids_of(length, i) for i, length in enumerate(lengths)]
        best = {}
        for rival.batch in RIVAL_BATCHES:
            best[rival.batch] = min(rival.run(sequences, 1)[0])
        rival.batch = min(best, key=best.get)
        times = alternate(engines, sequences, args.seconds, 3)
        rate = {}
        for engine, t in times.items():
            ms = summary(t)
            rate[engine] = {
                "max": round(len(lengths) * 1e3 / ms["min"], 1),
                "p50": round(len(lengths) * 1e3 / ms["p50"], 1),
            }
        yield {
            "threads": threads, "bulk_tokens": name, "rival_batch": rival.batch,
            "texts_per_s": rate,
        }  # fmt: skip
        rival.batch = 1
    engines["sprat"].process.stdin.close()


def is_slower(result: dict) -> bool:
    """Whether Sprat's median is worse."""
    ours, theirs = (result.get("ms") or result["texts_per_s"]).values()
    return ours["p50"] > theirs["p50"] if "ms" in result else ours["p50"] < theirs["p50"]


def report(result: dict) -> None:
    ours, theirs = (result.get("ms") or result["texts_per_s"]).values()
    if "ms" in result:
        what = f"{result['query_tokens']:>4} tokens, ms min/p50/p99    "
    else:
        what = f"~{result['bulk_tokens']:>3} tokens, texts/s max/p50"
    print(
        f"{result['threads']} threads {what} sprat {'/'.join(map(str, ours.values()))}"
        f" onnxruntime {'/'.join(map(str, theirs.values()))}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    models = os.environ.get("SPRAT_MODELS", pathlib.Path.home() / ".cache/sprat/models")
    parser.add_argument("--model", type=pathlib.Path,
                        default=pathlib.Path(models) / "all-MiniLM-L6-v2")  # fmt: skip
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.5, help="a size and engine")
    parser.add_argument("--history", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    results = []
    for threads in args.threads:
        for result in measure(args, threads):
            report(result)
            results.append(result)
    if args.history is not None:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True,
                                capture_output=True).stdout.strip()  # fmt: skip
        line = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": commit,
            "cpu": cpu_name(),
            "command": "bench/compare_cpu.py " + " ".join(sys.argv[1:]),
            "onnxruntime": onnxruntime.__version__,
            "results": results,
        }
        with args.history.open("a") as history:
            history.write(json.dumps(line) + "\n")
    return 1 if args.check and any(map(is_slower, results)) else 0


if __name__ == "__main__":
    sys.exit(main())
