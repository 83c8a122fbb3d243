#!/usr/bin/env python3
"""Hostile input over loopback: a clear status, bounded memory, and the next request is right.

    hostile_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import json
import random
import socket
import time

from harness import GOOD, ServerTest, main
from running_server import read_all


class Hostile(ServerTest):
    model = "tiny"
    options = ("--read-timeout-s", "1", "--max-connections", "50", "--idle-timeout-s", "5")

    def post_head(self, length, extra=b""):
        return (
            b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n%s\r\n" % (length, extra)
        )

    def test_b83_invalid_utf8(self):
        for bad in (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\xbd", b"\xf5\x80\x80\x80", b"\xe2\x82"):
            for body in (b'{"input":"a%sb"}', b'{"input":"a","model":"%s"}'):
                answer = self.server.post("/v1/embeddings", body % bad)
                self.assert_openai_error(answer, 400)
                answer.body.decode("utf-8")
            for request in (
                b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"GET /v1/models/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                b"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n",
            ):
                received = self.server.raw(request % bad)
                self.assertTrue(received.startswith(b"HTTP/1.1 "), received)
                received.decode("utf-8")

    def test_deep_json(self):
        body = '{"input":' + "[" * 10000 + "]" * 10000 + "}"
        self.assert_openai_error(self.server.post("/v1/embeddings", body), 400)

    def test_nul_bytes_and_huge_numbers_and_duplicate_keys(self):
        self.assertEqual(self.server.post("/v1/embeddings", {"input": "a\0b"}).status, 200)
        for body in (
            '{"input":"a","dimensions":1e400}',
            '{"input":"a","dimensions":' + "9" * 400 + "}",
            '{"input":[' + "9" * 30 + "]}",
            '{"input":"a","input":"b"}',
            '{"input":"a","dimensions":2,"dimensions":3}',
        ):
            self.assert_openai_error(self.server.post("/v1/embeddings", body), 400)

    def test_large_bodies(self):
        before = self.server.resident_bytes()
        received = self.server.raw(self.post_head(100 << 20) + b'{"input":"' + b"a" * 100000)
        self.assertTrue(received.startswith(b"HTTP/1.1 413 "), received[:80])
        chunk = b"%x\r\n%s\r\n" % (1 << 16, b"a" * (1 << 16))
        head = self.post_head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            try:
                sock.sendall(head)
                for _ in range(1600):  # 100 MB
                    sock.sendall(chunk)
            except OSError:
                pass  # it need not take them all
            self.assertIn(b"413", read_all(sock)[:20] or b"413")
        self.assertLess(self.server.resident_bytes() - before, 64 << 20)

    def test_many_long_texts_are_refused_by_size(self):
        body = json.dumps({"input": ["x" * 100000] * 2048}).encode()
        self.assertEqual(self.server.raw(self.post_head(len(body)) + body[:1 << 20])[:12],
                         b"HTTP/1.1 413")

    def test_header_floods(self):
        flood = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(1000))
        received = self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n" + flood + b"\r\n")
        self.assertTrue(received.startswith(b"HTTP/1.1 431 "), received[:80])
        received = self.server.raw(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(received.startswith(b"HTTP/1.1 4"), received[:80])

    def test_nonsense(self):
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # TLS to a plain port
            b"\0\0\0\0\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
            b"POST /v1/embeddings HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ):
            received = self.server.raw(data)
            self.assertRegex(received[:12], rb"^HTTP/1.1 (4\d\d|505)", data)

    def test_slow_loris_gets_a_408(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            begin = time.monotonic()
            sock.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\n")
            received = b""
            sock.settimeout(0.2)
            while time.monotonic() - begin < 8:
                try:
                    part = sock.recv(4096)
                    if not part:
                        break
                    received += part
                    if b"408" in received:
                        break
                except TimeoutError:
                    sock.sendall(b"X: y\r\n")
            self.assertTrue(received.startswith(b"HTTP/1.1 408 "), received[:80])

    def test_a_half_closed_socket_is_told(self):
        body = json.dumps(GOOD).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
            sock.sendall(self.post_head(len(body)) + body)
            sock.shutdown(socket.SHUT_WR)
            self.assertRegex(read_all(sock)[:12], rb"^HTTP/1.1 (200|499)")

    def test_a_connection_flood_at_the_limit(self):
        flood = [
            socket.create_connection(("127.0.0.1", self.server.port), timeout=10) for _ in range(60)
        ]
        try:
            time.sleep(0.2)
            flood[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(read_all(flood[-1]).startswith(b"HTTP/1.1 503 "))
            flood[0].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertTrue(read_all(flood[0]).startswith(b"HTTP/1.1 200 "))
        finally:
            for sock in flood:
                sock.close()
        time.sleep(0.2)

    def test_random_mutations_of_a_request(self):
        rng = random.Random(20240607)
        body = json.dumps(GOOD).encode()
        good = self.post_head(len(body), b"Connection: close\r\n") + body
        for _ in range(300):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(data))
                choice = rng.randrange(3)
                if choice == 0:
                    data[at] = rng.randrange(256)
                elif choice == 1:
                    del data[at : at + rng.randrange(1, 20)]
                else:
                    data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 8)))
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as sock:
                sock.sendall(bytes(data))
                sock.shutdown(socket.SHUT_WR)
                received = read_all(sock)
            self.assertTrue(received == b"" or received.startswith(b"HTTP/1.1 "), received[:80])


if __name__ == "__main__":
    main()
