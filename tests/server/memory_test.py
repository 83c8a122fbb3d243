#!/usr/bin/env python3
"""What bodies and answers in flight may take together.

    memory_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from harness import GOOD, Arguments, main
from running_server import RunningServer, read_all
from tiny_static import write_static_model

MEGA = 1 << 20
HEAD = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def sent_by(sock):
    """What the server sends until it closes, or in two seconds."""
    sock.settimeout(2)
    try:
        return read_all(sock)
    except TimeoutError:
        return b""


class Bodies(unittest.TestCase):
    def setUp(self):
        self.server = RunningServer(
            Arguments.program, Arguments.tiny, "--max-held-bytes", 4 * MEGA
        )
        self.addCleanup(lambda: self.assertEqual(self.server.close(), 0))
        self.sockets = contextlib.ExitStack()
        self.addCleanup(self.sockets.close)

    def connect(self, data):
        sock = self.sockets.enter_context(
            socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        )
        sock.sendall(data)
        return sock

    def await_held(self, expected):
        deadline = time.monotonic() + 20
        while (held := self.server.metric("sprat_held_bytes")) != expected:
            self.assertLess(time.monotonic(), deadline, held)
            time.sleep(0.01)

    def test_a_body_that_finds_no_room_is_refused_before_it_is_sent(self):
        body = json.dumps({"inputs": "good " * 600_000}).encode()  # 3 MB of 3.5
        head = HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
        first = self.connect(head + body[:100_000])
        self.await_held(len(body))
        for expect in (b"", b"Expect: 100-continue\r\n"):
            second = self.connect(HEAD + expect + b"Content-Length: 1000000\r\n\r\n")
            refused = sent_by(second)
            self.assertTrue(refused.startswith(b"HTTP/1.1 429 "), refused)
            self.assertIn(b"\r\nRetry-After: 1\r\n", refused)
            self.assertIn(b'"error_type":"overloaded"', refused)
        # What is small has its own part, and probes have no body.
        for path in ("/health", "/ready", "/metrics"):
            self.assertEqual(self.server.request("GET", path).status, 200)
        for _ in range(100):
            self.assertEqual(self.server.post("/v1/embeddings", GOOD).status, 200)
        # The first is answered, and its room is there again.
        first.sendall(body[100_000:])
        self.assertTrue(first.recv(100).startswith(b"HTTP/1.1 200 "))
        self.await_held(0)
        self.assertEqual(self.server.post("/embed", body).status, 200)
        self.assertEqual(self.server.metric("sprat_held_rejected_total"), 2)
        self.assertEqual(self.server.metric("sprat_rejected_total"), 2)

    def test_bodies_of_unknown_length_are_counted_as_they_come(self):
        before = self.server.resident_bytes()
        chunk = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
        statuses = []
        sockets = [
            self.connect(HEAD + b"Transfer-Encoding: chunked\r\n\r\n") for _ in range(32)
        ]
        for _ in range(8):  # 2 MB each: one of them fits
            for sock in sockets:
                with contextlib.suppress(OSError):
                    sock.sendall(chunk)
        for sock in sockets:
            statuses.append(sent_by(sock)[:12])
        self.assertEqual(statuses.count(b"HTTP/1.1 429"), 31, statuses)
        self.assertEqual(statuses.count(b""), 1, statuses)
        if not os.environ.get("SPRAT_TEST_SANITIZED"):
            self.assertLess(self.server.resident_bytes() - before, 24 * MEGA)
        self.sockets.close()
        self.await_held(0)

    def test_a_body_over_the_budget_is_taken_when_it_is_alone(self):
        body = {"inputs": "good " * 1_000_000}
        self.assertEqual(self.server.post("/embed", body).status, 200)
        self.await_held(0)


class Answers(unittest.TestCase):
    def test_clients_that_do_not_read_hold_no_more_than_there_is(self):
        columns, texts = 1024, 2000
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as sockets:
            rows = {"good": [0.1 + i / 7 for i in range(columns)]}
            model = write_static_model(f"{folder}/wide", Arguments.tiny, rows, {"normalize": True})
            server = RunningServer(Arguments.program, model, "--max-held-bytes", 80 * MEGA)
            body = json.dumps({"inputs": ["good"] * texts}).encode()
            statuses = []
            for _ in range(8):
                sock = socket.socket()
                sockets.enter_context(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.settimeout(20)
                sock.connect(("127.0.0.1", server.port))
                sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                statuses.append(sock.recv(12))
                self.assertLessEqual(server.metric("sprat_held_bytes"), 80 * MEGA)
            # 35 MB are asked for to compute one, and about 20 are held until it is read.
            self.assertEqual(statuses[:2], [b"HTTP/1.1 200"] * 2)
            self.assertEqual(statuses[4:], [b"HTTP/1.1 429"] * 4)
            self.assertEqual(server.post("/embed", {"inputs": "good"}).status, 200)
            sockets.close()
            deadline = time.monotonic() + 20
            while server.metric("sprat_held_bytes") > 0:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            self.assertEqual(server.post("/embed", body).status, 200)
            self.assertEqual(server.close(), 0)


if __name__ == "__main__":
    main()
