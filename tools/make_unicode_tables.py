#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_tables.inc: what the reference tokenizer believes about each character.

    python3 -m venv build/venv && build/venv/bin/pip install tokenizers==0.22.2
    build/venv/bin/python tools/make_unicode_tables.py > src/tokenizer/unicode_tables.inc

Every code point is run once through the components of Hugging Face `tokenizers`, because its parts
follow different and older versions of Unicode than any library would give us.
"""
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 64  # code points in a block of the two-stage tables
HANGUL = range(0xAC00, 0xAC00 + 11172)  # decomposed by arithmetic, as Unicode defines it

FLAGS = ["Whitespace", "Punctuation", "Control", "NonspacingMark", "Mark", "Word", "Numeric"]


def bert(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**options, **on})


def character_flags():
    """The set of FLAGS of each code point."""
    clean, strip_mn = bert(clean_text=True), bert(strip_accents=True)
    strip_marks = normalizers.StripAccents()
    split_space = pre_tokenizers.WhitespaceSplit()
    split_punctuation = pre_tokenizers.BertPreTokenizer()
    split_words = pre_tokenizers.Whitespace()
    split_digits = pre_tokenizers.Digits(individual_digits=False)
    flags = {}
    for c in CODE_POINTS:
        char = chr(c)
        between = "a" + char + "b"
        found = set()
        if len(split_space.pre_tokenize_str(between)) == 2:
            found.add("Whitespace")
        if len(split_punctuation.pre_tokenize_str(between)) == 3:
            found.add("Punctuation")
        if clean.normalize_str(between) == "ab":
            found.add("Control")
        if strip_mn.normalize_str(char) == "":
            found.add("NonspacingMark")
        if strip_marks.normalize_str(char) == "":
            found.add("Mark")
        if len(split_words.pre_tokenize_str(between)) == 1:
            found.add("Word")
        if len(split_digits.pre_tokenize_str(between)) == 3:
            found.add("Numeric")
        flags[c] = found
    return flags


def combining_classes(nfd):
    """The canonical combining class of each code point, by how NFD orders it among known marks."""
    known = {}  # class -> a mark that has it and has no decomposition
    for c in CODE_POINTS:
        combining = unicodedata.combining(chr(c))
        if combining and combining not in known and nfd(chr(c)) == chr(c):
            known[combining] = chr(c)
    ranks = sorted(known)
    lowest, highest = known[ranks[0]], known[ranks[-1]]
    classes = {}
    for c in CODE_POINTS:
        char = chr(c)
        if nfd(char) != char:
            continue  # never seen after decomposition
        before = nfd("a" + highest + char) != "a" + highest + char
        after = nfd("a" + char + lowest) != "a" + char + lowest
        if before or after:
            moved = [k for k in ranks if nfd("a" + known[k] + char) != "a" + known[k] + char]
            classes[c] = ranks[ranks.index(moved[0]) - 1] if moved else ranks[-1]
    return classes


def two_stage(values):
    """values of all code points -> (index of block by c // BLOCK, the distinct blocks laid end to end)."""
    index, blocks, seen = [], [], {}
    for start in range(0, 0x110000, BLOCK):
        block = tuple(values.get(c, 0) for c in range(start, start + BLOCK))
        if block not in seen:
            seen[block] = len(seen)
            blocks.extend(block)
        index.append(seen[block])
    return index, blocks


def emit(name, kind, values):
    print(f"inline constexpr {kind} {name}[{len(values)}] = {{")
    line = ""
    for value in values:
        item = f"{value},"
        if len(line) + len(item) > 100:
            print(line)
            line = ""
        line += item
    print(line + "};")


def emit_decompositions(name, table):
    """table: code point -> its full decomposition. Entry: length, then the code points."""
    data, offsets = [0], {}
    for c, expansion in table.items():
        offsets[c] = len(data)
        data.extend([len(expansion), *map(ord, expansion)])
    index, blocks = two_stage(offsets)
    emit(f"k{name}BlockOf", "uint8_t", index)
    emit(f"k{name}Offsets", "uint16_t", blocks)
    emit(f"k{name}Data", "char32_t", data)


def main():
    nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    lower = normalizers.Lowercase().normalize_str
    flags, classes = character_flags(), combining_classes(nfd)
    records, index_of, by_code_point = [(0, 0, 0)], {(0, 0, 0): 0}, {}
    for c in CODE_POINTS:
        lowered = lower(chr(c))
        # U+0130 is the only character with more than one lower-case letter; unicode.cc knows it.
        assert len(lowered) == 1 or c == 0x130
        bits = sum(1 << i for i, flag in enumerate(FLAGS) if flag in flags[c])
        record = (bits, classes.get(c, 0), ord(lowered) - c if len(lowered) == 1 else 0)
        if record not in index_of:
            index_of[record] = len(records)
            records.append(record)
        by_code_point[c] = index_of[record]

    print("// Generated by tools/make_unicode_tables.py from Hugging Face tokenizers "
          f"{tokenizers.__version__}; the command is in\n// that file. Do not edit. Included by unicode.cc only.")
    print(f"// Flags, from bit 0: {', '.join(FLAGS)}.")
    print("inline constexpr CharacterRecord kRecords[] = {")
    for bits, combining, delta in records:
        print(f"    {{{bits}, {combining}, {delta}}},")
    print("};")
    index, blocks = two_stage(by_code_point)
    emit("kRecordBlockOf", "uint16_t", index)
    emit("kRecordOf", "uint16_t", blocks)
    canonical = {c: nfd(chr(c)) for c in CODE_POINTS if c not in HANGUL and nfd(chr(c)) != chr(c)}
    compatible = {c: nfkd(chr(c)) for c in CODE_POINTS if c not in HANGUL and nfkd(chr(c)) != chr(c)
                  and nfkd(chr(c)) != nfd(chr(c))}
    emit_decompositions("Canonical", canonical)
    emit_decompositions("Compatible", compatible)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="ascii")
    main()
