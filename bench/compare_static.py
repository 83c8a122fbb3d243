#!/usr/bin/env python3
"""Compares static models: compare_static.py STATIC_SPEED [options]

    python3 -m venv build/rivals
    build/rivals/bin/pip install model2vec==0.10.0 'laghu[rust]==0.4.0'
    build/rivals/bin/python bench/compare_static.py build/release/bin/static_speed

Every measurement is a process of its own that opens the model, embeds one text, then 5,000 one by one,
then all in one call, twice, of which the better counts; in wall-clock time, without the start of Python and its
imports. The engines take turns, --rounds times; the table shows the median. Sprat runs as STATIC_SPEED, the
others through encode(). With two threads, model2vec's tokenizers' own threads and its default for many
texts are both tried. The texts are wordnet's glosses. The WordPiece model is made from all-MiniLM-L6-v2
(tools/make_static_model.py). --record appends a line to bench/history.jsonl.
"""
import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "tokenizer"), str(ROOT / "tools"), str(ROOT / "bench")]
from compare_tokenizer import read_texts, write_texts  # noqa: E402

MODELS = pathlib.Path(os.environ.get("SPRAT_MODELS") or "~/.cache/sprat/models").expanduser()
ENGINES = ["sprat", "model2vec", "laghu"]
SINGLES = 5000


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def child(engine, directory, threads, texts):
    """What a rival's process does; prints what STATIC_SPEED prints."""
    if engine == "model2vec":
        from model2vec import StaticModel
        ways = [{"use_multiprocessing": False}] + ([{}] if threads > 1 else [])

        def load():
            return StaticModel.from_pretrained(directory)
    else:
        import laghu
        ways = [{}]

        def load():
            return laghu.load(directory, fallback=False)
    start = time.perf_counter()
    model = load()
    opened = time.perf_counter() - start
    model.encode([texts[0]])
    first = time.perf_counter() - start
    singles = [timed(lambda: model.encode([text])) for text in texts[:SINGLES]]
    everything = min(timed(lambda: model.encode(texts, **way)) for way in ways for _ in range(2))
    print(json.dumps({"open": opened, "first": first, "single_us": statistics.median(singles) * 1e6,
                      "all": everything, "sum": float(model.encode(texts[:1000]).sum())}))


def measure(engine, program, directory, threads, texts_file):
    if engine == "sprat":
        command = [program, directory, str(threads), texts_file]
    else:
        command = [sys.executable, __file__, program, "--child", engine, directory, str(threads), texts_file]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment[name] = str(threads)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        print(f"  {engine} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def compare(name, directory, texts, options):
    """Prints the table of one model; the medians by threads and engine."""
    print(f"\n| {name} | threads | open, ms | to the first vector, ms | one text, us | texts/s "
          "(least to most) | beside model2vec |\n|---|---|---|---|---|---|---|")
    medians = {}
    with tempfile.TemporaryDirectory() as folder:
        texts_file = os.path.join(folder, "texts")
        write_texts(texts_file, texts)
        for threads in options.threads:
            found = {engine: [] for engine in ENGINES}
            for _ in range(options.rounds):
                for engine in ENGINES:
                    result = measure(engine, options.speed_program, directory, threads, texts_file)
                    if result:
                        found[engine].append(result)
            rates = {engine: [len(texts) / result["all"] for result in results]
                     for engine, results in found.items() if results}
            for engine, rate in rates.items():
                opened, first, single = (statistics.median(result[key] for result in found[engine])
                                         for key in ("open", "first", "single_us"))
                middle = statistics.median(rate)
                factor = middle / statistics.median(rates["model2vec"]) if "model2vec" in rates else float("nan")
                print(f"| {engine} | {threads} | {opened * 1e3:.1f} | {first * 1e3:.1f} | {single:.2f} | "
                      f"{middle:,.0f} ({min(rate):,.0f} to {max(rate):,.0f}) | {factor:.1f}x |", flush=True)
                medians[f"{threads} threads/{engine}"] = {
                    "open_ms": round(opened * 1e3, 2), "first_ms": round(first * 1e3, 2),
                    "single_us": round(single, 2), "texts_per_s": round(middle)}
    return medians


def glosses(count):
    import texts
    found = texts.wordnet_glosses()
    random.Random(7).shuffle(found)
    return found[:count]


def record(results, options):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            cwd=ROOT, check=False)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                   platform.machine())
    with open(ROOT / "bench" / "history.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"bench": "compare_static", "commit": commit.stdout.strip(), "cpu": cpu,
                               "rounds": options.rounds, "texts": options.texts, **results}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("speed_program")
    parser.add_argument("--encoder", type=pathlib.Path, default=MODELS / "all-MiniLM-L6-v2")
    parser.add_argument("--wordpiece", help="a WordPiece static model instead of the one that is made")
    parser.add_argument("--distilled", help="a model made by bench/distill_static.py, compared as well")
    parser.add_argument("--unigram", default=str(MODELS / "tokenlearn-static"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=60000)
    parser.add_argument("--only", choices=["wordpiece", "unigram"])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        engine, directory, threads, texts_file = options.child
        return child(engine, directory, int(threads), read_texts(texts_file))
    texts = glosses(options.texts)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "unigram":
            model = options.wordpiece
            if not model:
                import make_static_model
                model = os.path.join(folder, "wordpiece")
                make_static_model.make(options.encoder, pathlib.Path(model), columns=256, dtype="F32")
            results["wordpiece"] = compare("WordPiece, 256 columns", model, texts, options)
            if options.distilled:
                name = "WordPiece, distilled from all-MiniLM-L6-v2, F16"
                results["distilled"] = compare(name, options.distilled, texts, options)
        if options.only != "wordpiece":
            results["unigram"] = compare("Unigram, tokenlearn-static-model", options.unigram, texts, options)
    if options.record:
        record(results, options)
    return None


if __name__ == "__main__":
    sys.exit(main())
