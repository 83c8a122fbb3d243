#!/usr/bin/env python3
"""Times the n-gram embedding as a chain of torch operations on a GPU.

    ngram_chain_torch.py [TOKENS ...]     default: 1 16 64 256 2048 8192

Flash-Lite's dimensions (H 3072, 12 tables of 1 M rows of 256), BF16, random values. `chain` is the
reference's form: for each table an upload of its ids, a gather, a matrix product and a scaled add,
and the same for the word row. `graph` is the best that torch does without a kernel of one's own:
ids on the device, one gather of all tables' rows and one matrix product with the word row added,
in a CUDA graph. Microseconds between two events, median of 9 rounds; batches are rotated.
"""

import statistics
import sys

import torch

H, G, D, ROWS, V = 3072, 12, 256, 1_000_000, 131_072
BATCHES = 16


def time_us(run, calls):
    times = []
    for _ in range(9):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for i in range(calls):
            run(i % BATCHES)
        stop.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(stop) / calls)
    return statistics.median(times)


def main():
    torch.manual_seed(1)
    device = torch.device("cuda")
    options = {"dtype": torch.bfloat16, "device": device}
    tables = torch.randn(G, ROWS, D, **options)
    flat = tables.view(G * ROWS, D)
    word = torch.randn(V, H, **options)
    projections = torch.randn(G, H, D, **options) * 0.05
    joined = projections.permute(0, 2, 1).reshape(H, H).contiguous()
    scale = 1 / (1 + G)
    for tokens in [int(t) for t in sys.argv[1:]] or [1, 16, 64, 256, 2048, 8192]:
        ids = [
            [torch.randint(ROWS, (tokens,)).pin_memory() for _ in range(G)] for _ in range(BATCHES)
        ]
        words = [torch.randint(V, (tokens,)).pin_memory() for _ in range(BATCHES)]

        def chain(batch):
            out = word[words[batch].to(device, non_blocking=True)] * scale
            for i in range(G):
                rows = tables[i][ids[batch][i].to(device, non_blocking=True)]
                out.add_(rows @ projections[i].T, alpha=scale)
            return out

        offsets = torch.arange(G, device=device) * ROWS
        flat_ids = [torch.stack(b, 1).to(device) + offsets for b in ids]
        device_words = [w.to(device) for w in words]
        graphs = []
        side = torch.cuda.Stream()
        for batch in range(BATCHES):

            def fused():
                rows = flat[flat_ids[batch].view(-1)].view(tokens, H)
                return torch.addmm(word[device_words[batch]], rows, joined, beta=scale, alpha=scale)

            with torch.cuda.stream(side):
                fused()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                fused()
            graphs.append(graph)
        calls = 16 if tokens > 512 else 64
        chain(0)
        result = [time_us(chain, calls), time_us(lambda batch: graphs[batch].replay(), calls)]
        print(f"torch {tokens:5} tokens: chain {result[0]:8.1f} us, graph {result[1]:8.1f} us")


if __name__ == "__main__":
    main()
