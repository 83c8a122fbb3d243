#!/usr/bin/env python3
"""Writes an n-gram embedding of any size: config.json and model.safetensors.

    make_ngram_model.py OUT                                     a toy: V 1000, H 96, four tables
    make_ngram_model.py OUT --preset flash-lite-table           one table of the real 10,223,617 rows
    make_ngram_model.py OUT --preset flash-lite --ratio 8       Flash-Lite's shape, smaller tables
    make_ngram_model.py OUT --preset flash-lite --sparse        its full size, 63 GB that take 0.8 of disk

Values are random (a fixed seed gives the same file on every machine), normal with a standard
deviation of 0.02, or all zero with --sparse, where the file has a hole in place of the tables.
docs/ngram.md has the format.
"""

import argparse
import json
import math
import pathlib
import struct
import sys

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("make_ngram_model.py: error: needs numpy (pip install numpy)")

PRESETS = {
    "toy": dict(vocab=1000, hidden=96, ratio=3.0, neighbors=3, splits=2),
    "flash-lite": dict(vocab=131072, hidden=3072, ratio=78.0, neighbors=4, splits=4),
    # Table 0 alone: 78 * 131072 + 1 rows of 256.
    "flash-lite-table": dict(vocab=131072, hidden=256, ratio=78.0, neighbors=2, splits=1),
}
NAMES = {
    "ngram": (
        ("ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num"),
        "model.ngram_embeddings.embedders.{}.weight",
        "model.ngram_embeddings.post_projs.{}.weight",
    ),
    "oe": (
        ("oe_vocab_size_ratio", "oe_neighbor_num", "oe_split_num"),
        "model.oe_embed_tokens{}.weight",
        "model.oe_embed_proj{}.weight",
    ),
}
BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1}
CHUNK = 1 << 22  # values drawn at a time
MOST_TABLES = 4096
DEVIATION = 0.02
FP8_SCALE = 4 * DEVIATION / 448  # one a tensor; what is beyond 4 deviations is clamped


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """f32 to bf16, rounded to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def e4m3_table() -> np.ndarray:
    """The values of the codes 0x00 .. 0x7e (OCP E4M3)."""
    codes = np.arange(0x7F)
    exponent, mantissa = codes >> 3, codes & 7
    return np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))


def e4m3_codes(values: np.ndarray) -> np.ndarray:
    """f32 to E4M3, rounded to nearest (ties up), clamped."""
    table = e4m3_table()
    codes = np.searchsorted((table[1:] + table[:-1]) / 2, np.abs(values), side="right")
    return (codes | np.where(values < 0, 0x80, 0)).astype(np.uint8)


def encode(values: np.ndarray, dtype: str) -> bytes:
    if dtype == "F32":
        return values.tobytes()
    if dtype == "BF16":
        return bf16_bits(values).tobytes()
    return e4m3_codes(values / np.float32(FP8_SCALE)).tobytes()


def tensors(arguments: argparse.Namespace):
    """(name, dtype, shape) of every tensor, in the order of the file."""
    _, table_name, projection_name = NAMES[arguments.names]
    count = arguments.splits * (arguments.neighbors - 1)
    width = arguments.hidden // count
    wide = "BF16" if arguments.dtype == "F8_E4M3" else arguments.dtype
    if not arguments.no_word_table:
        yield "model.embed_tokens.weight", wide, [arguments.vocab, arguments.hidden]
    for i in range(count):
        rows = int(arguments.ratio * arguments.vocab) + 2 * i + 1
        rows = -(-rows // arguments.row_multiple) * arguments.row_multiple
        name = table_name.format(i)
        yield name, arguments.dtype, [rows, width]
        if arguments.dtype == "F8_E4M3":
            yield name + "_scale", "F32", []
        yield projection_name.format(i), wide, [arguments.hidden, width]


def write_file(path: pathlib.Path, entries, sparse: bool, random: np.random.Generator) -> None:
    header, end = {}, 0
    for name, dtype, shape in entries:
        begin, end = end, end + int(np.prod(shape, dtype=np.int64)) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file = path.open("wb")  # outside: a file that cannot be opened is not ours to remove
    try:
        with file:
            write_tensors(file, text, header, entries, sparse, random)
    except BaseException:
        path.unlink(missing_ok=True)  # half a file looks like a whole one until it is opened
        raise


def write_tensors(file, text: bytes, header, entries, sparse: bool, random) -> None:
    end = max(place["data_offsets"][1] for place in header.values())
    file.write(struct.pack("<Q", len(text)) + text)
    start = file.tell()
    for name, dtype, shape in entries:
        if name.endswith("_scale"):
            file.write(struct.pack("<f", FP8_SCALE))
        elif sparse and len(shape) == 2 and shape[0] > shape[1] * 64:
            file.seek(start + header[name]["data_offsets"][1])
        else:
            left = int(np.prod(shape, dtype=np.int64))
            while left > 0:
                values = random.standard_normal(min(left, CHUNK), dtype=np.float32)
                file.write(encode(values * np.float32(DEVIATION), dtype))
                left -= len(values)
    file.truncate(start + end)


def write_model(arguments: argparse.Namespace) -> None:
    keys, _, _ = NAMES[arguments.names]
    ratio = int(arguments.ratio) if arguments.ratio == int(arguments.ratio) else arguments.ratio
    config = {
        "architectures": ["LongcatFlashNgramForCausalLM"],
        "vocab_size": arguments.vocab,
        "hidden_size": arguments.hidden,
        "eos_token_id": arguments.eos,
        **dict(zip(keys, (ratio, arguments.neighbors, arguments.splits))),
    }
    if arguments.row_multiple > 1:
        config["embP"] = arguments.row_multiple
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    random = np.random.default_rng(arguments.seed)
    entries = list(tensors(arguments))
    if arguments.shards == 1:
        write_file(out / "model.safetensors", entries, arguments.sparse, random)
        return
    weight_map = {}
    for i in range(arguments.shards):
        name = f"model-{i + 1:05}-of-{arguments.shards:05}.safetensors"
        # In runs, so that a scale stays beside its table.
        part = entries[i * len(entries) // arguments.shards : (i + 1) * len(entries) // arguments.shards]
        write_file(out / name, part, arguments.sparse, random)
        weight_map.update({entry[0]: name for entry in part})
    index = {"metadata": {}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.exit(2, f"{self.prog}: error: {message}\n")


def whole(least: int, most: int):
    """A reader of whole numbers from `least` to `most`, for argparse."""

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} to {most}, got '{text}'"
            )
        return number

    return read


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number, got '{text}'")
    return number


def check_sizes(parsed: argparse.Namespace, parser: Parser) -> None:
    """The limits that the engine has: a model that it refuses is not worth writing."""
    count = parsed.splits * (parsed.neighbors - 1)
    if count > MOST_TABLES:
        parser.error(f"--splits {parsed.splits} and --neighbors {parsed.neighbors} make {count} "
                     f"tables, {MOST_TABLES} at most")  # fmt: skip
    if parsed.hidden % count != 0:
        parser.error(f"--hidden {parsed.hidden} must be a multiple of the {count} tables")
    if parsed.shards > count:
        parser.error(f"--shards {parsed.shards} must be from 1 to the {count} tables")
    rows = parsed.ratio * parsed.vocab
    if rows < 1 or rows + 2 * count + parsed.row_multiple >= 2**32:
        parser.error(f"--ratio {parsed.ratio:g} of --vocab {parsed.vocab} makes tables of {rows:.6g} "
                     "rows, expected from 1 to 2^32")  # fmt: skip


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="directory to write, made if need be")
    parser.add_argument("--preset", choices=PRESETS, default="toy")
    parser.add_argument("--vocab", type=whole(1, 2**32 - 1), help="V, vocab_size")
    parser.add_argument("--hidden", type=whole(1, 2**20), help="H, hidden_size")
    parser.add_argument("--ratio", type=positive, help="r: a table has int(r V) rows and a few")
    parser.add_argument("--neighbors", type=whole(2, 32), help="N, the longest n-gram")
    parser.add_argument("--splits", type=whole(1, MOST_TABLES), help="K, tables an order")
    parser.add_argument("--eos", type=whole(0, 2**32 - 1), default=2)
    parser.add_argument("--dtype", choices=BYTES, default="BF16", help="of the tables")
    parser.add_argument("--names", choices=NAMES, default="ngram", help="family of keys and tensors")
    parser.add_argument(
        "--row-multiple", type=whole(1, 2**20), default=1, help="pad tables to a multiple"
    )
    parser.add_argument("--shards", type=whole(1, MOST_TABLES), default=1)
    parser.add_argument("--no-word-table", action="store_true")
    parser.add_argument("--sparse", action="store_true", help="zeros that take no disk for tables")
    parser.add_argument("--seed", type=whole(0, 2**64 - 1), default=1)
    parsed = parser.parse_args(arguments)
    for key, value in PRESETS[parsed.preset].items():
        if getattr(parsed, key) is None:
            setattr(parsed, key, value)
    check_sizes(parsed, parser)
    return parsed


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        write_model(arguments)
    except OSError as fault:
        where = fault.filename or arguments.out
        print(f"make_ngram_model.py: error: {where}: {fault.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
