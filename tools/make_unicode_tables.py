#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_tables.inc: what the reference tokenizer believes about each character.

    python3 -m venv build/venv && build/venv/bin/pip install tokenizers==0.22.2
    build/venv/bin/python tools/make_unicode_tables.py > src/tokenizer/unicode_tables.inc

Every code point is run once through the components of Hugging Face `tokenizers`, because its parts
follow different and older versions of Unicode than any library would give us.
"""
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 64  # code points in a block of the two-stage tables
HANGUL = range(0xAC00, 0xAC00 + 11172)  # decomposed by arithmetic, as Unicode defines it

FLAGS = ["Whitespace", "Punctuation", "Control", "NonspacingMark", "Mark", "Word", "Numeric", "PatternWord"]

CATEGORIES = ["Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi",
              "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"]
# What the rules for grapheme clusters ask of a character (UAX #29, GB3 to GB13); the order is that of
# GraphemeClass in unicode.h.
GRAPHEME_CLASSES = ["Other", "Control", "Extend", "ZeroWidthJoiner", "SpacingMark", "Prepend", "RegionalIndicator",
                    "HangulL", "HangulV", "HangulT", "HangulLV", "HangulLVT", "Pictographic", "IndicConsonant",
                    "IndicLinker", "IndicExtend"]


def bert(**on):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**options, **on})


def matching(pattern):
    """The code points that a regular expression of one character matches."""
    split, found = pre_tokenizers.Split(Regex(pattern), "removed"), set()
    for start in range(0, 0x110000, 0x800):
        if 0xD800 <= start < 0xE000:
            continue
        found.update(range(start, start + 0x800))
        for _, (first, last) in split.pre_tokenize_str("".join(map(chr, range(start, start + 0x800)))):
            found.difference_update(range(start + first, start + last))
    return found


def character_flags():
    """The set of FLAGS of each code point."""
    clean, strip_mn = bert(clean_text=True), bert(strip_accents=True)
    strip_marks = normalizers.StripAccents()
    split_space = pre_tokenizers.WhitespaceSplit()
    split_punctuation = pre_tokenizers.BertPreTokenizer()
    split_words = pre_tokenizers.Whitespace()
    split_digits = pre_tokenizers.Digits(individual_digits=False)
    pattern_words = matching(r"[\w]")
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
        if c in pattern_words:
            found.add("PatternWord")
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


def categories():
    """The general category of each code point, as regular expressions know it."""
    found = {}
    for category in CATEGORIES[1:]:
        for c in matching(rf"\p{{{category}}}"):
            assert c not in found
            found[c] = category
    return found


def grapheme_classes():
    """The class of each code point, by how it joins its neighbours into clusters.

    The reference shows its clusters only through Precompiled: one of less than six bytes is looked up
    whole, and the first prefix that is a key replaces all of it. With every byte as a key, the length
    of the result is one for each such cluster and one for each character of the longer ones.
    """
    units = [256 << 10] + [0xFF] * 767  # a double array of the keys 0x01 to 0xFF, all with value 0
    for byte in range(1, 256):
        units[256 ^ byte] = byte | 1 << 8 | 768 << 10
        units[512 ^ byte] = 0
    charsmap = struct.pack("<I768I", 768 * 4, *units) + b"X\0"
    normalizer = normalizers.Precompiled(charsmap)

    def length(text):
        return len(normalizer.normalize_str(text))

    copyright_sign, joiner, virama, ka, acute, grave = "\u00a9", "\u200d", "\u094d", "\u0915", "\u0301", "\u0300"
    hangul_l, hangul_v, hangul_t = "\u1100", "\u1161", "\u11a8"
    classes = {}
    for c in CODE_POINTS:
        char = chr(c)
        attaches = length("a" + char) == 1
        if c == 0 or (length(char + acute + grave) == 2 and not attaches):
            kind = "Control"
        elif 0x1F1E6 <= c <= 0x1F1FF:
            kind = "RegionalIndicator"
        elif char == joiner:
            kind = "ZeroWidthJoiner"
        elif attaches and length(ka + char + ka + acute) == 4 and len(char.encode()) > 2:
            kind = "IndicLinker"
        elif attaches and length(ka + char + virama + ka + acute) == 5:
            kind = "IndicExtend"  # and Extend
        elif attaches and length(copyright_sign + char + joiner + copyright_sign + acute) == 5:
            kind = "Extend"
        elif attaches:
            kind = "SpacingMark"
        elif length(char + "a") == 1:
            kind = "Prepend"
        elif length(char + joiner + copyright_sign + acute) == 4:
            kind = "Pictographic"
        elif len(char.encode()) > 2 and length(char + virama + ka + acute) == 4:
            kind = "IndicConsonant"
        elif length(char + hangul_l + acute) == 3 and len(char.encode()) > 2:
            kind = "HangulL"
        elif length(char + hangul_v + acute) == 3 and len(char.encode()) > 2:
            kind = "HangulLV" if c in HANGUL else "HangulV"
        elif length(char + hangul_t + acute) == 3 and len(char.encode()) > 2:
            kind = "HangulLVT" if c in HANGUL else "HangulT"
        else:
            kind = "Other"
        classes[c] = kind
    return classes


def compositions(nfd, nfc):
    """(first, second, composed) for each pair that NFC puts together, sorted; Hangul is left out."""
    pairs = []
    for c in CODE_POINTS:
        parts = nfd(chr(c))
        if c in HANGUL or len(parts) < 2 or nfc(parts) != chr(c):
            continue
        first = nfc(parts[:-1])
        assert len(first) == 1
        pairs.append((ord(first), ord(parts[-1]), c))
    return sorted(pairs)


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
    category_of, graphemes = categories(), grapheme_classes()
    nothing = (0, 0, 0, 0, 0)
    records, index_of, by_code_point = [nothing], {nothing: 0}, {}
    for c in CODE_POINTS:
        lowered = lower(chr(c))
        # U+0130 is the only character with more than one lower-case letter; unicode.cc knows it.
        assert len(lowered) == 1 or c == 0x130
        bits = sum(1 << i for i, flag in enumerate(FLAGS) if flag in flags[c])
        record = (bits, classes.get(c, 0), CATEGORIES.index(category_of.get(c, "Cn")),
                  GRAPHEME_CLASSES.index(graphemes[c]), ord(lowered) - c if len(lowered) == 1 else 0)
        if record not in index_of:
            index_of[record] = len(records)
            records.append(record)
        by_code_point[c] = index_of[record]

    print("// Generated by tools/make_unicode_tables.py from Hugging Face tokenizers "
          f"{tokenizers.__version__}; the command is in\n// that file. Do not edit. Included by unicode.cc only.")
    print(f"// Flags, from bit 0: {', '.join(FLAGS)}.\n// Categories: {' '.join(CATEGORIES)}.")
    print("inline constexpr CharacterRecord kRecords[] = {")
    for bits, combining, category, grapheme, delta in records:
        print(f"    {{{bits}, {combining}, {category}, GraphemeClass{{{grapheme}}}, {delta}}},")
    print("};")
    index, blocks = two_stage(by_code_point)
    emit("kRecordBlockOf", "uint16_t", index)
    emit("kRecordOf", "uint16_t", blocks)
    canonical = {c: nfd(chr(c)) for c in CODE_POINTS if c not in HANGUL and nfd(chr(c)) != chr(c)}
    compatible = {c: nfkd(chr(c)) for c in CODE_POINTS if c not in HANGUL and nfkd(chr(c)) != chr(c)
                  and nfkd(chr(c)) != nfd(chr(c))}
    emit_decompositions("Canonical", canonical)
    emit_decompositions("Compatible", compatible)
    emit("kCompositions", "char32_t", [c for pair in compositions(nfd, normalizers.NFC().normalize_str) for c in pair])


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="ascii")
    main()
