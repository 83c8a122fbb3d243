#!/usr/bin/env python3
"""Many clients at once, overload, clients that leave, and what all that costs.

    load_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import collections
import concurrent.futures
import contextlib
import json
import os
import random
import socket
import statistics
import time
import unittest

from harness import GOOD, Arguments, main
from running_server import RunningServer


class Concurrency(unittest.TestCase):
    def test_many_clients_get_their_own_vectors(self):
        server = RunningServer(Arguments.program, Arguments.model)
        try:
            texts = [f"text number {i}" for i in range(32)]
            rows = server.post("/v1/embeddings", {"input": texts}).json()["data"]
            expected = [row["embedding"] for row in rows]

            def client(seed):
                rng = random.Random(seed)
                with contextlib.closing(server.connection()) as connection:
                    for _ in range(20):
                        i = rng.randrange(len(texts))
                        answer = server.post("/embed", {"inputs": texts[i]}, connection=connection)
                        if answer.json() != [expected[i]]:
                            return f"text {i} got another vector"
                return None

            with concurrent.futures.ThreadPoolExecutor(32) as pool:
                self.assertEqual([r for r in pool.map(client, range(32)) if r], [])
            # Some of them must have shared a batch.
            batches = server.metric("sprat_batch_size_count")
            self.assertLess(batches, 32 * 20)
        finally:
            self.assertEqual(server.close(), 0)

    def test_b99_overload_is_an_expected_state(self):
        limits = ("--queue-requests", 16, "--max-batch", 8)
        server = RunningServer(Arguments.program, Arguments.model, *limits)
        try:

            def client(seed):
                rng = random.Random(seed)
                texts = ["word " * rng.randrange(1, 15)] * rng.randrange(1, 200)
                if seed % 2 == 0:
                    answer = server.post("/v1/embeddings", {"input": texts, "dimensions": 1})
                    rows, code = "data", ("error", "code")
                else:
                    answer = server.post("/embed", {"inputs": texts, "dimensions": 1})
                    rows, code = None, ("error_type",)
                body = answer.json()
                if answer.status == 429:
                    for key in code:
                        body = body[key]
                    return (429, body.lower(), answer.headers["Retry-After"])
                return (answer.status, len(body[rows] if rows else body) == len(texts))

            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                results = list(pool.map(client, range(128)))
            self.assertEqual(len(results), 128)
            self.assertLessEqual(set(results), {(200, True), (429, "overloaded", "1")})
            self.assertIn((429, "overloaded", "1"), results)
            self.assertEqual(server.post("/v1/embeddings", GOOD).status, 200)
            self.assertGreater(server.metric("sprat_rejected_total"), 0)
        finally:
            self.assertEqual(server.close(), 0)

    def test_b101_a_list_longer_than_the_limit_does_not_hang(self):
        limits = ("--max-batch", 2, "--max-tokens", 8)
        server = RunningServer(Arguments.program, Arguments.model, *limits)
        try:
            self.assertEqual(len(server.post("/embed", {"inputs": ["a"] * 3}).json()), 3)
            self.assertEqual(len(server.post("/embed", {"inputs": "a"}).json()), 1)
            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                lists = pool.map(lambda _: server.post("/embed", {"inputs": ["a"] * 7}), range(5))
                self.assertEqual([len(answer.json()) for answer in lists], [7] * 5)
            self.assertEqual(server.post("/embed", {"inputs": "a"}).status, 200)
        finally:
            self.assertEqual(server.close(), 0)

    def test_b103_clients_that_leave_are_dropped(self):
        server = RunningServer(Arguments.program, Arguments.model)
        try:
            body = json.dumps({"input": ["long text " * 40] * 32}).encode()
            head = (
                b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            begin = time.monotonic()
            server.post("/v1/embeddings", body)
            alone = time.monotonic() - begin
            sockets = []
            for _ in range(200):
                sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
                sock.sendall(head + body)
                sockets.append(sock)
            time.sleep(0.05)
            for sock in sockets:
                sock.close()
            begin = time.monotonic()
            self.assertEqual(server.post("/v1/embeddings", {"input": "good"}).status, 200)
            took = time.monotonic() - begin
            self.assertLess(took, 20 * alone + 2)
            self.assertGreater(server.metric("sprat_cancelled_total"), 50)
        finally:
            self.assertEqual(server.close(), 0)


class Resources(unittest.TestCase):
    def test_b105_memory_does_not_grow_with_requests(self):
        # The address sanitizer would keep what was freed, up to 256 MB of it.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        environment = {"ASAN_OPTIONS": sanitizer}
        server = RunningServer(Arguments.program, Arguments.tiny, environment=environment)
        rng = random.Random(105)
        try:
            with contextlib.closing(server.connection()) as connection:

                def post(requests):
                    for _ in range(requests):
                        text = "word " * rng.randrange(1, 257)
                        texts = [text] * rng.randrange(1, 33)
                        answer = server.post("/embed", {"inputs": texts}, connection=connection)
                        self.assertEqual(answer.status, 200)
                    return server.resident_bytes()

                server.post("/embed", {"inputs": ["word " * 256] * 32}, connection=connection)
                before = post(800)
                self.assertLess(post(800), 1.03 * before)
        finally:
            self.assertEqual(server.close(), 0)

    def test_b107_threads_follow_affinity_or_the_option(self):
        for prefix, options, threads in (
            (("taskset", "-c", "0"), (), 1),
            ((), ("--threads", "3"), 3),
        ):
            server = RunningServer(Arguments.program, Arguments.tiny, *options, prefix=prefix)
            try:
                serving = [line for line in server.log if "serving 'm'" in line]
                self.assertTrue(serving[0].endswith(f" {threads} threads"), serving)
                server.post("/v1/embeddings", GOOD)  # the batcher's thread comes with the first
                tasks = f"/proc/{server.process.pid}/task"
                before = len(os.listdir(tasks))
                with concurrent.futures.ThreadPoolExecutor(32) as pool:
                    answers = pool.map(lambda _: server.post("/v1/embeddings", GOOD), range(64))
                    self.assertEqual({answer.status for answer in answers}, {200})
                self.assertEqual(len(os.listdir(tasks)), before)
            finally:
                self.assertEqual(server.close(), 0)

    def test_b109_the_first_request_is_no_slower(self):
        ratios = []
        for _ in range(3):  # the best counts: other programs run on this machine
            server = RunningServer(Arguments.program, Arguments.model)
            try:
                with contextlib.closing(server.connection()) as connection:
                    times = []
                    for _ in range(20):
                        begin = time.perf_counter()
                        server.post("/v1/embeddings", GOOD, connection=connection)
                        times.append(time.perf_counter() - begin)
                ratios.append(times[0] / statistics.median(times[1:]))
            finally:
                self.assertEqual(server.close(), 0)
        self.assertLessEqual(min(ratios), 3)

    def test_an_idle_server_does_nothing(self):
        server = RunningServer(Arguments.program, Arguments.tiny)
        try:
            time.sleep(0.3)  # what starting left to do

            def cpu_ticks():
                with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
                return int(fields[11]) + int(fields[12])

            before = cpu_ticks()
            time.sleep(2)
            self.assertLessEqual(cpu_ticks() - before, 1)
        finally:
            self.assertEqual(server.close(), 0)

    def test_mixed_load_with_faults(self):
        server = RunningServer(Arguments.program, Arguments.tiny)
        end = time.monotonic() + 4
        counts = collections.Counter()

        def client(seed):
            rng = random.Random(seed)
            body = json.dumps({"input": ["word " * 40] * 8}).encode()
            head = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            while time.monotonic() < end:
                kind = rng.randrange(3)
                if kind == 0:  # leaves before the answer, or in the middle of the body
                    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as sock:
                        sock.sendall(head % len(body) + body[: rng.choice((9, len(body)))])
                elif kind == 1:
                    answer = server.post("/v1/embeddings", '{"input":[1.5}')
                    self.assertEqual(answer.status, 400)
                else:
                    answer = server.post("/v1/embeddings", body)
                    self.assertIn(answer.status, (200, 429))
                counts[kind] += 1

        try:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                for done in [pool.submit(client, seed) for seed in range(16)]:
                    done.result()
            self.assertEqual(len(counts), 3)
            self.assertEqual(server.post("/v1/embeddings", GOOD).status, 200)
        finally:
            self.assertEqual(server.close(), 0)


if __name__ == "__main__":
    main()
