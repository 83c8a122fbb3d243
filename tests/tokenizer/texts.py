"""Texts to compare tokenizers on: every character, awkward strings, and real texts of Debian packages."""
import glob
import os
import random
import re
import subprocess

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]

# Characters that tokenizers get wrong: separators, controls, joiners, marks of several classes,
# letters with special cases, scripts with and without spaces, and the borders of ranges.
AWKWARD = (
    list(" \t\n\r\x0b\x0c\x00\x01\x1c\x1f\x7f\x85\xa0\xad\u1680\u2000\u2002\u200b\u200c\u200d\u200e\u2028\u2029"
         "\u202f\u205f\u2060\u3000\ufeff\ufffd\ufffe\ue000\U000e0001\U000e0061\U000f0000")
    + list("aAbzZ09_'\"-.,!?$+<=>^`|~#@[](){}&*/\\:;%")
    + list("\xe9\xc9e\u0301\u0300\u0327\u0345\u05b0\u064b\u0670\u093c\u094d\u0e38\u0f71\u0f72\u1dce\u20dd\u302e\u302f"
           "\u3099\u309a\u0488\u0903\u093e\U0001d165\U0001d16e\U00016ff0")
    + list("\u0130\u0131I\u03a3\u03c2\u03c3\xdf\u1e9e\ufb01\u2126\u212b\u01c4\u01c5\u0344\u0958\u1fb3\u1ffc\u0149")
    + list("\u0416\u0439\u0451\u05d0\u0628\u0915\u0e01\u1100\u1161\u11a8\uac00\uac01\ud7a3\u3042\u30ab\u30ac\u4e00\u9fff"
           "\u3400\u4dbf\u4dc0\uf900\ufaff\U00020000\U0002a6df\U0002b820\U0002b920\U0002ceaf\U0002ceb0\U0002f800")
    + list("\u2013\u2014\u2026\u20ac\u2122\xa7\xb6\xbf\u0387\u055a\u3001\u3002\uff01\uff5e\u2070\u00b2\u00bd\u0660")
    + list("\U0001f600\U0001f468\u200d\U0001f469\U0001f1e9\U0001f1ea\U0001f3fb\ufe0f\u20e3\u2764")
)


def alone():
    return [chr(c) for c in CODE_POINTS]


def between(left, right):
    return [left + chr(c) + right for c in CODE_POINTS]


def awkward_strings(count, seed, extra=()):
    """Random strings of up to 40 awkward characters, words and `extra` strings."""
    random_source = random.Random(seed)
    words = ["the", "Embedding", "unaffable", "playerzzq", "ab" * 8, "q" * 60, "x" * 101, *extra]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(random_source.randint(1, 40)):
            kind = random_source.random()
            if kind < 0.75:
                parts.append(random_source.choice(AWKWARD))
            elif kind < 0.9:
                parts.append(random_source.choice(words))
            else:
                parts.append(chr(random_source.choice(CODE_POINTS)))
        texts.append("".join(parts))
    return texts


CHINESE = ("chinese", "song100", "tang300")


def grapheme_clusters(count, seed):
    """Clusters of one to six characters of the kinds that the rules for clusters tell apart."""
    random_source = random.Random(seed)
    kinds = ["aZ1 ", "\r\n\t\u200b\u2028", "\u0301\u0300\u0308\u0327", "\u200d\u200c\ufe0f", "\u0903\u093e\u0e33\u0eb3",
             "\u0600\u06dd\u08e2\U000110bd", "\U0001f1e9\U0001f1ea", "\u1100\ua960", "\u1161\ud7b0", "\u11a8\ud7cb",
             "\uac00\ub098", "\uac01\ub099", "\u00a9\u00ae\u2122\U0001f468\U0001f469\u2764", "\u0915\u0924\u0995",
             "\u094d\u09cd\u0d4d", "\u093c\U0001f3fb\u20dd", "\u304b\u3099\uff76\uff9e\uff21\u337f\ufb01\u00bd"]
    return ["".join(random_source.choice(random_source.choice(kinds)) for _ in range(random_source.randint(1, 6)))
            for _ in range(count)]


def fortunes(folder, chinese=False):
    texts = []
    for path in sorted(glob.glob(f"/usr/share/games/fortunes/{folder}*.u8")):
        if (os.path.basename(path).removesuffix(".u8") in CHINESE) != chinese:
            continue
        with open(path, encoding="utf-8", errors="ignore") as file:
            texts += [text for text in file.read().split("\n%\n") if text.strip()]
    return texts


def wordnet_glosses():
    texts = []
    for part in ("adj", "adv", "noun", "verb"):
        with open(f"/usr/share/wordnet/data.{part}", encoding="utf-8") as file:
            texts += [line.split("|", 1)[1].strip() for line in file if "|" in line]
    return texts


def package_descriptions():
    listing = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout
    descriptions = re.findall(r"^Description(?:-en)?: (.*(?:\n .*)*)", listing.decode("utf-8", "ignore"), re.M)
    return sorted(set(descriptions))


def real_texts(at_least):
    """Fortunes in four languages, glosses and package descriptions; fails if there are too few."""
    sources = {
        "fortunes (English)": fortunes(""),
        "fortunes (German)": fortunes("de/"),
        "fortunes (Russian)": fortunes("ru/"),
        "fortunes (Chinese)": fortunes("", chinese=True),
        "wordnet glosses": wordnet_glosses()[::3],
        "package descriptions": package_descriptions()[::3],
    }
    texts = []
    for name, found in sources.items():
        print(f"  {name}: {len(found)}")
        if not found:
            raise SystemExit(f"no texts of kind '{name}': tools/install_packages.sh installs them")
        texts += found
    if len(texts) < at_least:
        raise SystemExit(f"{len(texts)} real texts, {at_least} wanted")
    return texts
