#!/usr/bin/env python3
"""Many clients at once, overload, clients that leave, and what all that costs.

    load_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import concurrent.futures
import contextlib
import json
import os
import random
import socket
import statistics
import tempfile
import time
import unittest

from harness import GOOD, Arguments, main
from running_server import RunningServer, cpu_seconds


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
        server = RunningServer(Arguments.program, Arguments.tiny, *limits)
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

            results, end = [], time.monotonic() + 5
            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                while time.monotonic() < end:
                    results += pool.map(client, range(len(results), len(results) + 1000))
            self.assertGreaterEqual(len(results), 1000)
            self.assertIn((200, True), results)
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
        self.check_clients_that_leave()

    def test_clients_that_leave_behind_a_second_request_are_dropped(self):
        self.check_clients_that_leave(then=b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")

    def test_clients_of_a_unix_socket_that_leave_behind_a_second_request_are_dropped(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            self.check_clients_that_leave(then=b"GET /health HTTP/1.1\r\n", path=path)

    def check_clients_that_leave(self, then=b"", path=None):
        """then: what they send behind the request; path: of the Unix socket that they use."""
        options = () if path is None else ("--uds", path)
        server = RunningServer(Arguments.program, Arguments.model, *options)
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
                sock = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
                sock.settimeout(10)
                sock.connect(path or ("127.0.0.1", server.port))
                sock.sendall(head + body)
                sockets.append(sock)
            time.sleep(0.05)
            for sock in sockets:
                sock.sendall(then)
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

    def test_b109_the_first_request_is_no_slower(self):
        ratios = []
        # Other programs run on this machine: what it can do in one of several starts, it can do. A
        # first request that has something to load is slower in each.
        while len(ratios) < 8 and not (ratios and ratios[-1] <= 3):
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
            # What starting left to do may take a while on a slow machine; what an idle server keeps
            # doing, it does in every second.
            used = []
            while len(used) < 15 and not (used and used[-1] < 0.005):
                before = cpu_seconds(server.process.pid)
                time.sleep(1)
                used.append(cpu_seconds(server.process.pid) - before)
            self.assertLess(used[-1], 0.005, used)
        finally:
            self.assertEqual(server.close(), 0)


if __name__ == "__main__":
    main()
