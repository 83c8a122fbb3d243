#!/usr/bin/env python3
"""Compares tokenizers on one thread and on two: compare_tokenizer.py TOKENIZER_SPEED [options]

    python3 -m venv build/rivals
    build/rivals/bin/pip install tokenizers==0.22.2 nanotoken==0.1.0 tokie==0.1.4 blingfire==0.1.8
    build/rivals/bin/python bench/compare_tokenizer.py build/release/bin/tokenizer_speed

Every measurement is a process of its own that loads the tokenizer, warms it on other texts and
then times one pass over texts that it has not seen ("first") and the same pass again ("again"), in
CPU time of the thread. The workload "bulk" is the short texts in one call for two threads, in real time: each
library's own way for many texts. The engines take turns, --rounds times; the table shows the median. Sprat runs as TOKENIZER_SPEED, the
others through their Python calls, one call a text. --record appends a line to bench/history.jsonl.
"""
import argparse
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "tokenizer"))
MODELS = os.environ.get("SPRAT_MODELS", os.path.expanduser("~/.cache/sprat/models"))
LONG_BYTES = 2_000_000


def load(engine, directory):
    """A function from a text to its ids."""
    path = os.path.join(directory, "tokenizer.json")
    if engine == "tokenizers":
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    if engine == "nanotoken":
        from nanotoken import Tokenizer
        tokenizer = Tokenizer(path)
        return lambda text: tokenizer.encode(text, add_special_tokens=False)
    if engine == "tokie":
        from tokie import Tokenizer
        tokenizer = Tokenizer.from_json(path)
        return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    import blingfire  # with models of its own: BERT's is the same vocabulary, XLM-R's another one
    name = "xlm_roberta_base.bin" if "tokenlearn" in directory or "static" in directory else "bert_base_tok.bin"
    handle = blingfire.load_model(os.path.join(os.path.dirname(blingfire.__file__), name))
    return lambda text: blingfire.text_to_ids(handle, text, len(text) * 2 + 16, 100, no_padding=True)


def load_bulk(engine, directory, threads):
    """A function from many texts to all their ids."""
    encode = load(engine, directory)
    path = os.path.join(directory, "tokenizer.json")
    if engine == "tokenizers":
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return lambda texts: [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    if engine == "nanotoken":
        from nanotoken import Tokenizer
        tokenizer = Tokenizer(path)
        return lambda texts: tokenizer.encode_batch_list(texts, add_special_tokens=False)
    if engine == "tokie":
        from tokie import Tokenizer
        tokenizer = Tokenizer.from_json(path)
        return lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    from concurrent.futures import ThreadPoolExecutor  # blingfire has no call for many
    pool = ThreadPoolExecutor(threads)
    return lambda texts: [ids for part in pool.map(lambda rank: [encode(t) for t in texts[rank::threads]],
                                                   range(threads)) for ids in part]


def child_bulk(engine, directory, warm, texts, threads):
    """As child, with all texts in one call."""
    encode = load_bulk(engine, directory, threads)
    encode(warm)
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        ids = encode(texts)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"first": seconds[0], "again": seconds[1], "ids": sum(map(len, ids))}))


def child(engine, directory, warm, texts):
    """What a rival's process does; prints what TOKENIZER_SPEED prints."""
    start = time.thread_time()
    encode = load(engine, directory)
    opened = time.thread_time() - start
    for text in warm:
        encode(text)
    seconds = []
    for _ in range(2):
        start = time.thread_time()
        for text in texts:
            encode(text)
        seconds.append(time.thread_time() - start)
    print(json.dumps({"open": opened, "first": seconds[0], "again": seconds[1],
                      "ids": sum(len(encode(text)) for text in texts)}))


def write_texts(path, texts):
    with open(path, "wb") as file:
        for text in texts:
            data = text.encode()
            file.write(struct.pack("<I", len(data)) + data)


def read_texts(path):
    with open(path, "rb") as file:
        data = file.read()
    texts, at = [], 0
    while at < len(data):
        size, = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4:at + 4 + size].decode())
        at += 4 + size
    return texts


def cut(text, size):
    return text.encode()[:size].decode(errors="ignore")


def workloads():
    """name -> (unit, warm texts, timed texts)."""
    import texts
    source = random.Random(7)
    glosses = texts.wordnet_glosses()
    source.shuffle(glosses)
    short = [g for g in glosses if 60 <= len(g) <= 100]
    scripts = texts.fortunes("ru/") + texts.fortunes("de/") + texts.fortunes("", chinese=True)
    source.shuffle(scripts)

    def random_word():
        return "".join(source.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(source.randint(3, 12)))

    words = " ".join(random_word() for _ in range(LONG_BYTES // 8))
    return {
        "short": ("us a text", short[:5000], short[5000:25000]),
        "bulk": ("texts/s, two threads", short[:5000], short[5000:25000]),
        "long": ("MB/s", [], [cut(" ".join(glosses), LONG_BYTES)]),
        "random words": ("MB/s", [], [cut(words, LONG_BYTES)]),
        "mixed scripts": ("MB/s", [], [cut("\n".join(scripts), LONG_BYTES)]),
    }


def measure(engine, speed_program, directory, warm, texts, threads):
    if engine == "sprat":
        command = [speed_program, directory, warm, texts, str(threads)]
    else:
        command = [sys.executable, __file__, speed_program, "--child", engine, directory, warm, texts, str(threads)]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
                   "RAYON_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        print(f"  {engine} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def figure(unit, seconds, texts):
    if unit.startswith("texts/s"):
        return len(texts) / seconds
    if unit == "MB/s":
        return sum(len(text.encode()) for text in texts) / seconds / 1e6
    return seconds / len(texts) * 1e6


def compare(model, directory, engines, options):
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (unit, warm, texts) in workloads().items():
            warm_file, texts_file = os.path.join(folder, "warm"), os.path.join(folder, "texts")
            write_texts(warm_file, warm)
            write_texts(texts_file, texts)
            results = {engine: [] for engine in engines}
            for _ in range(options.rounds):
                for engine in engines:
                    result = measure(engine, options.speed_program, directory, warm_file, texts_file,
                                     2 if name == "bulk" else 1)
                    if result:
                        results[engine].append(result)
            for engine, found in results.items():
                if found:
                    rows[(name, engine)] = [unit] + [
                        f(figure(unit, result[key], texts) for result in found)
                        for key in ("first", "again") for f in (statistics.median, min, max)] + [found[0]["ids"]]
    print(f"\n| {model} | engine | first (least to most) | again | ids |\n|---|---|---|---|---|")
    for (name, engine), (unit, first, low, high, again, _, _, ids) in rows.items():
        print(f"| {name}, {unit} | {engine} | {first:,.2f} ({low:,.2f} to {high:,.2f}) | {again:,.2f} | {ids} |")
    return {f"{name}/{engine}": {"unit": row[0], "first": round(row[1], 3), "again": round(row[4], 3)}
            for (name, engine), row in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("speed_program")
    parser.add_argument("--wordpiece", default=os.path.join(MODELS, "all-MiniLM-L6-v2"))
    parser.add_argument("--unigram", default=os.path.join(MODELS, "tokenlearn-static"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["wordpiece", "unigram"])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        engine, directory, warm, texts, threads = options.child
        if int(threads) > 1:
            return child_bulk(engine, directory, read_texts(warm), read_texts(texts), int(threads))
        return child(engine, directory, read_texts(warm), read_texts(texts))
    results = {}
    if options.only != "unigram":
        results["wordpiece"] = compare("WordPiece, all-MiniLM-L6-v2", options.wordpiece,
                                       ["sprat", "nanotoken", "tokie", "blingfire", "tokenizers"], options)
    if options.only != "wordpiece":
        results["unigram"] = compare("Unigram, tokenlearn-static-model", options.unigram,
                                     ["sprat", "tokie", "blingfire", "tokenizers"], options)
    if options.record:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE)
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
        with open(os.path.join(HERE, "history.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "compare_tokenizer", "commit": commit.stdout.strip(), "cpu": cpu,
                                   "rounds": options.rounds, **results}) + "\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
