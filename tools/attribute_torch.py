#!/usr/bin/env python3
"""Times PyTorch on the same model and the same GPU: the compilers that docs/gpu-spike.md compares.

Four ways to run the encoder in fp16, weights from a published model directory: eager, eager in a
CUDA graph, torch.compile "reduce-overhead" and "max-autotune". For one query: device time (events
around back-to-back calls, divided; for plain eager that is bounded by the host), and the time from
token ids in host memory to the normalised vector in host memory. For bulk: texts a second on the
device, the ids already there. The network is Hugging Face's BertModel where transformers is
installed, else the same network from plain torch modules.

Usage: attribute_torch.py MODEL [--tokens 16] [--bulk 1024x32,1024x128] [--modes eager,graph,...]
"""
import argparse
import json
import pathlib
import statistics
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class PlainBert(torch.nn.Module):
    """BertModel without the pooler, names as in the checkpoint."""

    def __init__(self, config):
        super().__init__()
        hidden, ffn = config["hidden_size"], config["intermediate_size"]
        self.heads, self.eps = config["num_attention_heads"], config["layer_norm_eps"]
        linear, norm = torch.nn.Linear, lambda: torch.nn.LayerNorm(hidden, self.eps)
        self.word = torch.nn.Embedding(config["vocab_size"], hidden)
        self.position = torch.nn.Embedding(config["max_position_embeddings"], hidden)
        self.type = torch.nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = norm()
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({
                "query": linear(hidden, hidden), "key": linear(hidden, hidden),
                "value": linear(hidden, hidden), "out": linear(hidden, hidden), "norm1": norm(),
                "up": linear(hidden, ffn), "down": linear(ffn, hidden), "norm2": norm(),
            }) for _ in range(config["num_hidden_layers"]))

    def load(self, tensors):
        def put(module, name):
            for part in ("weight", "bias"):
                if hasattr(module, part) and getattr(module, part) is not None:
                    getattr(module, part).data.copy_(tensors[f"{name}.{part}"])
        put(self.word, "embeddings.word_embeddings")
        put(self.position, "embeddings.position_embeddings")
        put(self.type, "embeddings.token_type_embeddings")
        put(self.norm, "embeddings.LayerNorm")
        for i, layer in enumerate(self.layers):
            at = f"encoder.layer.{i}."
            for ours, theirs in (("query", "attention.self.query"), ("key", "attention.self.key"),
                                 ("value", "attention.self.value"),
                                 ("out", "attention.output.dense"),
                                 ("norm1", "attention.output.LayerNorm"),
                                 ("up", "intermediate.dense"), ("down", "output.dense"),
                                 ("norm2", "output.LayerNorm")):
                put(layer[ours], at + theirs)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.word(ids) + self.position.weight[:length] + self.type.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            attended = F.scaled_dot_product_attention(
                split(layer["query"](x)), split(layer["key"](x)), split(layer["value"](x)))
            x = layer["norm1"](x + layer["out"](attended.transpose(1, 2).flatten(2)))
            x = layer["norm2"](x + layer["down"](F.gelu(layer["up"](x))))
        return x


class Sentence(torch.nn.Module):
    """Mean pooling over all tokens and L2 normalisation, in f32, as sentence-transformers does."""

    def __init__(self, body, hugging_face):
        super().__init__()
        self.body, self.hugging_face = body, hugging_face

    def forward(self, ids):
        x = self.body(ids).last_hidden_state if self.hugging_face else self.body(ids)
        return F.normalize(x.float().mean(1), dim=-1)


def load(directory):
    config = json.loads((directory / "config.json").read_text())
    tensors = load_file(directory / "model.safetensors")
    try:
        import transformers
        bert = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
        bert.load_state_dict(tensors, strict=False)
        return Sentence(bert, True).half().cuda().eval(), config, f"transformers {transformers.__version__}"
    except ImportError:
        bert = PlainBert(config)
        bert.load(tensors)
        return Sentence(bert, False).half().cuda().eval(), config, "plain torch modules"


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(p * len(values)))]


def device_us(call, repeats, rounds=7):
    """Median over rounds of the time of `repeats` calls back to back, in microseconds a call."""
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / repeats)
    return statistics.median(times)


def capture(model, ids):
    """A CUDA graph of one call on `ids`; returns what replays it and where the result lies."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(ids)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(ids)
    return graph, out


def wall_us(call, ids, n=500):
    """p50 and p99 from ids in host memory to the vector in host memory."""
    host_ids = ids.cpu().pin_memory()
    times = []
    for i in range(n + 50):
        start = time.perf_counter()
        ids.copy_(host_ids, non_blocking=True)
        call().cpu()
        if i >= 50:
            times.append((time.perf_counter() - start) * 1e6)
    return percentile(times, 0.5), percentile(times, 0.99)


def runner(mode, model, ids):
    if mode == "eager":
        return lambda: model(ids)
    if mode == "graph":
        graph, out = capture(model, ids)
        def replay():
            graph.replay()
            return out
        return replay
    torch._dynamo.reset()
    compiled = torch.compile(model, mode=mode, dynamic=False)
    for _ in range(4):
        compiled(ids)
    torch.cuda.synchronize()
    return lambda: compiled(ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--tokens", default="16", help="query lengths, comma-separated")
    parser.add_argument("--bulk", default="1024x32,1024x128", help="BxS, comma-separated; may be empty")
    parser.add_argument("--modes", default="eager,graph,reduce-overhead,max-autotune")
    args = parser.parse_args()
    torch.manual_seed(1)
    model, config, source = load(args.model)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {source}, fp16", flush=True)
    with torch.inference_mode():
        for mode in args.modes.split(","):
            for tokens in (int(t) for t in args.tokens.split(",") if t):
                ids = torch.randint(1000, config["vocab_size"], (1, tokens), device="cuda")
                call = runner(mode, model, ids)
                p50, p99 = wall_us(call, ids)
                print(f"torch {mode:16} query {tokens:4} tokens: device {device_us(call, 200):8.1f} us, "
                      f"ids to vector p50 {p50:8.1f} p99 {p99:8.1f} us", flush=True)
            for shape in (s for s in args.bulk.split(",") if s):
                b, s = (int(n) for n in shape.split("x"))
                ids = torch.randint(1000, config["vocab_size"], (b, s), device="cuda")
                us = device_us(runner(mode, model, ids), 10, 5)
                print(f"torch {mode:16} bulk {b} x {s}: {us / 1000:8.3f} ms, {b / us * 1e6:10.0f} texts/s",
                      flush=True)


if __name__ == "__main__":
    main()
