#!/usr/bin/env python3
"""Compares token ids with Hugging Face `tokenizers`: reference_test.py TOKEN_IDS SUITE MODEL_DIRECTORY

TOKEN_IDS is the program beside this file. SUITE: `characters`, `texts`, `awkward`, `options`
(the files' options for BERT), `components` (all others) or `decode` (ids back into texts). Seeds are fixed.
"""
import array
import copy
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import components
import texts
from tokenizers import Tokenizer


def sprat_ids(program, directory, inputs, flags=()):
    encoded = [text.encode() for text in inputs]
    stream = b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    done = subprocess.run([program, directory, *flags], input=stream, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"token_ids failed: {done.stderr.decode()}")
    numbers = array.array("I")
    numbers.frombytes(done.stdout)
    ids, at = [], 0
    while at < len(numbers):
        ids.append(numbers[at + 1:at + 1 + numbers[at]].tolist())
        at += 1 + numbers[at]
    return ids


def compare(program, directory, inputs, name, parse_special_tokens=True):
    """The number of texts whose ids differ; the first few are printed."""
    reference = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    reference.encode_special_tokens = not parse_special_tokens
    flags = () if parse_special_tokens else ("--no-special-tokens-in-text",)
    found = sprat_ids(program, directory, inputs, flags)
    different = 0
    for start in range(0, len(inputs), 10000):
        batch = inputs[start:start + 10000]
        expected = reference.encode_batch_fast(batch, add_special_tokens=False)
        for text, want, got in zip(batch, expected, found[start:start + 10000]):
            if want.ids != got:
                different += 1
                if different <= 5:
                    print(f"  {name}: {ascii(text)[:300]}\n    reference {want.ids[:40]}\n    here      {got[:40]}")
    if len(found) != len(inputs):
        raise SystemExit(f"{name}: {len(inputs)} texts, {len(found)} answers")
    print(f"{name}: {len(inputs)} texts, {different} different")
    return different


def characters(program, model):
    return (compare(program, model, texts.alone(), "every character alone")
            + compare(program, model, texts.between("a", "b"), "every character between letters")
            + compare(program, model, texts.between("1", "2"), "every character between digits"))


def real(program, model):
    return compare(program, model, texts.real_texts(at_least=100000), "real texts")


def awkward(program, model):
    inputs = texts.grapheme_clusters(200000, seed=3)
    different = compare(program, model, inputs, "grapheme clusters")
    special = ["<s>", "</s>", "<pad>", "<unk>", " <pad> ", "<mask>", "\u2581", ".", "...", "\u2581the", "\uff1cpad>",
               "[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]", "##ing", "[unused1]"]
    inputs = texts.awkward_strings(200000, seed=1, extra=special)
    return (different + compare(program, model, inputs, "awkward strings")
            + compare(program, model, inputs[:20000], "without parsing special tokens", parse_special_tokens=False))


def token(content, **flags):
    return {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


def option_variants(base):
    """(name, tokenizer.json) for the normalizer's flags, the model's options and added tokens."""
    for bits in range(16):
        changed = copy.deepcopy(base)
        flags = dict(clean_text=bool(bits & 1), handle_chinese_chars=bool(bits & 2),
                     strip_accents=bool(bits & 4), lowercase=bool(bits & 8))
        changed["normalizer"].update(flags)
        yield f"normalizer {flags}", changed
    changed = copy.deepcopy(base)
    changed["model"].update(max_input_chars_per_word=5, continuing_subword_prefix="")
    yield "short words, no prefix", changed
    changed = copy.deepcopy(base)
    changed["model"]["continuing_subword_prefix"] = "@@none"
    yield "a prefix that no token has", changed
    for normalized in (False, True):
        for single_word, lstrip, rstrip in [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]:
            flags = dict(single_word=bool(single_word), lstrip=bool(lstrip), rstrip=bool(rstrip), normalized=normalized)
            changed = copy.deepcopy(base)
            changed["added_tokens"] += [token("the", **flags), token("\u00c9t\u00e9", **flags),
                                        token("New York", special=True, **flags), token("a\u0301", **flags),
                                        token("!?", **flags), token("The Embedding", **flags), token("New", **flags)]
            yield f"added tokens {flags}", changed


def options(program, model):
    with open(os.path.join(model, "tokenizer.json"), encoding="utf-8") as file:
        base = json.load(file)
    extra = ["the", "The", "\u00c9t\u00e9", "e\u0301te\u0301", "\u00e9t\u00e9", "New York", "new york", "New", "!?", "a\u0301",
             "\u00e1", " ", "\u3000", "[SEP]"]
    inputs = texts.awkward_strings(6000, seed=2, extra=extra) + [
        a + s + b for a in extra for s in ("", " ", "\n ", "_", "\u0301") for b in extra]
    different = 0
    for name, changed in option_variants(base):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(changed, file)
            different += compare(program, directory, inputs, name)
            different += compare(program, directory, inputs[-500:], name + ", special tokens not parsed", False)
    return different


def component_tests(program, model):
    del model  # these train their own
    corpus = [text for found in (texts.wordnet_glosses()[::100], texts.fortunes("de/")[::40], texts.fortunes("ru/")[::40],
                                 texts.fortunes("", chinese=True)[::20]) for text in found]
    extra = ["the", "It's", "I'LL", "don't", "1234567", "  ", "   \n", "aab", "abab", "ccc", ".", "...", "12x", "    ",
             "<|endoftext|>", "[MASK]", "<unk>", "<0x41>", "\u2581", "\u00e9", "-", "\u017f", "'\u017f", "xx"]
    inputs = (texts.awkward_strings(1500, seed=4, extra=extra) + texts.grapheme_clusters(300, seed=5) + corpus[::7]
              + [a + b for a in extra for b in extra])
    different = 0
    decoders = itertools.cycle(components.decoders())
    for name, tokenizer in components.variants(corpus):
        with tempfile.TemporaryDirectory() as directory:
            tokenizer.save(os.path.join(directory, "tokenizer.json"))
            different += compare(program, directory, inputs, name)
            decoder = next(decoders)
            changed = {**json.loads(tokenizer.to_str()), "decoder": decoder}
            with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(changed, file)
            different += compare_decoded(program, directory, inputs[:300], f"{name}, {decoder}")
    return different


def sprat_texts(program, directory, rows, skip_special_tokens):
    stream = b"".join(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids) for ids in rows)
    flag = "--decode" if skip_special_tokens else "--decode-all"
    done = subprocess.run([program, directory, flag], input=stream, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"token_ids failed: {done.stderr.decode()}")
    found, at = [], 0
    while at < len(done.stdout):
        (size,) = struct.unpack_from("<I", done.stdout, at)
        found.append(done.stdout[at + 4:at + 4 + size].decode())  # strict: it must be UTF-8
        at += 4 + size
    return found


def compare_decoded(program, directory, inputs, name):
    """As compare(), for ids of the texts, with special tokens, and for ids at random."""
    reference = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    rng = random.Random(6)
    rows = [made.ids for made in reference.encode_batch_fast(inputs)]
    beyond = reference.get_vocab_size() + 3  # ids that stand for nothing are left out
    rows += [[rng.randrange(beyond) for _ in range(rng.randrange(12))] for _ in range(len(inputs))]
    different = 0
    for skip in (True, False):
        expected = reference.decode_batch(rows, skip_special_tokens=skip)
        found = sprat_texts(program, directory, rows, skip)
        assert len(found) == len(rows)
        for ids, want, got in zip(rows, expected, found):
            if want != got:
                different += 1
                if different <= 5:
                    print(f"  {name}: {ids[:20]}\n    reference {ascii(want)[:200]}\n    here      {ascii(got)[:200]}")
    print(f"{name}: {2 * len(rows)} rows of ids, {different} different")
    return different


def decode(program, model):
    inputs = texts.awkward_strings(8000, seed=7, extra=["don't", "it's", "we've", "do not", "a . b", "x ' y", "[SEP]"])
    different = compare_decoded(program, model, inputs, "the model's own decoder")
    with open(os.path.join(model, "tokenizer.json"), encoding="utf-8") as file:
        base = json.load(file)
    for changed in components.decoders():
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump({**base, "decoder": changed}, file)
            different += compare_decoded(program, directory, inputs[:1000], str(changed))
    return different


def main():
    program, suite, model = sys.argv[1:]
    suites = {"characters": characters, "texts": real, "awkward": awkward, "options": options,
              "components": component_tests, "decode": decode}
    sys.exit(1 if suites[suite](program, model) else 0)


if __name__ == "__main__":
    main()
