"""Small tokenizers, trained on the spot, that together use every component of tokenizer.json."""
import json

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
ALPHABET = [chr(c) for c in range(32, 127)] + list("\u2581\u00e9\u00df\u0130\u0416\u0439\u4e00\u3042\uac00")


def bpe(corpus, normalizer=None, pre_tokenizer=None, size=1500, alphabet=None, specials=("<unk>",), **options):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    affixes = {key: options[key] for key in ("continuing_subword_prefix", "end_of_word_suffix") if key in options}
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet if alphabet is not None else ALPHABET, limit_alphabet=300,
        special_tokens=list(specials), show_progress=False, **affixes)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def byte_level_variants(corpus):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for prefix in (False, True):
        yield f"GPT-2, prefix space {prefix}", bpe(
            corpus, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=prefix), alphabet=alphabet)
    for name, pattern in (("Qwen", QWEN), ("Llama 3", LLAMA3), ("o200k", O200K)):
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        yield name, bpe(corpus, normalizer=normalizers.NFC(), alphabet=alphabet,
                        pre_tokenizer=pre_tokenizers.Sequence([split, byte_level]))
    tokenizer = bpe(corpus, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet=alphabet)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False), AddedToken("[MASK]", lstrip=True)])
    tokenizer.add_tokens([AddedToken("    ", normalized=False), AddedToken("the")])
    yield "ModernBERT-like", tokenizer
    changed = json.loads(tokenizer.to_str())
    changed["model"]["ignore_merges"] = True
    changed["model"]["merges"] = changed["model"]["merges"][:200]
    merged = {token for pair in changed["model"]["merges"] for token in (*pair, "".join(pair))}
    assert merged <= set(changed["model"]["vocab"])
    yield "ignore_merges", Tokenizer.from_str(json.dumps(changed))


def sentencepiece_variants(corpus):
    gemma = normalizers.Replace(" ", "\u2581")
    bytes_ = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    for fuse in (False, True):
        yield f"Gemma-like, fuse_unk {fuse}", bpe(corpus, normalizer=gemma, specials=bytes_, byte_fallback=True,
                                                  fuse_unk=fuse, pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"))
        yield f"unknown characters, fuse_unk {fuse}", bpe(corpus, normalizer=gemma, fuse_unk=fuse)
    yield "Llama-2-like", bpe(corpus, specials=bytes_, byte_fallback=True, fuse_unk=True, normalizer=normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]))
    for scheme in ("first", "always", "never"):
        for split in (True, False):
            yield f"Metaspace {scheme}, split {split}", bpe(
                corpus, normalizer=normalizers.Strip(left=scheme == "first", right=True),
                pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split))
    yield "prefix and suffix", bpe(corpus, pre_tokenizer=pre_tokenizers.Whitespace(), continuing_subword_prefix="@@",
                                   end_of_word_suffix="</w>")


def small_components(corpus):
    whitespace = pre_tokenizers.Whitespace()
    for normalizer in (normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(),
                       normalizers.StripAccents(), normalizers.Nmt(), normalizers.Strip(), normalizers.Prepend("x"),
                       normalizers.Replace("the", "THE"), normalizers.Replace(Regex(r" {2,}"), "\u2581"),
                       normalizers.Replace(Regex(r"[0-9]+?x|a(b|c)+|\d{2,4}"), ""), normalizers.ByteLevel(),
                       normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])):
        yield f"normalizer {normalizer}"[:60], bpe(corpus, normalizer=normalizer, size=700, alphabet=ALPHABET + list("\u0120"))
        yield f"the same, words, {normalizer}"[:60], bpe(corpus, normalizer=normalizer, size=700, pre_tokenizer=whitespace)
    splits = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.BertPreTokenizer(), whitespace,
              pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Digits(individual_digits=False),
              pre_tokenizers.CharDelimiterSplit("-"), pre_tokenizers.FixedLength(7)]
    splits += [pre_tokenizers.Punctuation(behavior) for behavior in BEHAVIORS]
    splits += [pre_tokenizers.Split(pattern, behavior, invert) for behavior in BEHAVIORS for invert in (False, True)
               for pattern in (" ", Regex(r"\s+|[^\w]"))]
    splits += [pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])]
    for split in splits:
        yield f"pre-tokenizer {split}"[:70], bpe(corpus, pre_tokenizer=split, size=700)


def unigram_variants(corpus):
    for byte_fallback in (False, True):
        specials = ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
        for scheme in ("always", "first"):
            tokenizer = Tokenizer(models.Unigram())
            tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
            tokenizer.train_from_iterator((text for text in corpus if max(text) < "\u0460"), trainers.UnigramTrainer(
                vocab_size=1500, special_tokens=specials, unk_token="<unk>", show_progress=False))
            changed = json.loads(tokenizer.to_str())
            changed["model"]["byte_fallback"] = byte_fallback
            yield f"Unigram {scheme}, byte_fallback {byte_fallback}", Tokenizer.from_str(json.dumps(changed))
    # Ties: all scores equal; pieces that make each other superfluous; the unknown piece in the middle.
    pieces = ["a", "b", "ab", "ba", "aba", "<unk>", "bab", "abab", "c", "cc", "ccc", "\u00e9", "xx", "."]
    for unknown in (5, 13):
        yield f"Unigram ties, unknown {unknown}", Tokenizer(models.Unigram([(p, -1.0) for p in pieces], unk_id=unknown))


def variants(corpus):
    yield from byte_level_variants(corpus)
    yield from sentencepiece_variants(corpus)
    yield from unigram_variants(corpus)
    yield from small_components(corpus)


def decoders():
    """The member `decoder` of tokenizer.json: none, and every kind."""
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "split": True}
    spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    yield None
    yield {"type": "WordPiece", "prefix": "##", "cleanup": True}
    yield {"type": "WordPiece", "prefix": "a", "cleanup": False}
    yield {**metaspace, "prepend_scheme": "always"}
    yield {**metaspace, "prepend_scheme": "never"}
    yield {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    yield {"type": "BPEDecoder", "suffix": "</w>"}
    yield {"type": "Sequence", "decoders": [spaces, {"type": "ByteFallback"}, {"type": "Fuse"},
                                            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    yield {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "[aeiou]+"}, "content": "<>"},
                                            {"type": "Fuse"}]}
