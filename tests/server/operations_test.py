#!/usr/bin/env python3
"""What an operator does to a server: logs whose reader goes or stops, key files replaced, an end
while models load.

    operations_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from harness import GOOD, Arguments, main
from running_server import RunningServer, cpu_seconds, write_keys
from tiny_static import write_static_model


class Logs(unittest.TestCase):
    def start(self, output):
        """A server with an access log on the descriptor `output`, which is closed here."""
        errors = tempfile.TemporaryFile("w+")
        self.addCleanup(errors.close)
        process = subprocess.Popen(
            [Arguments.program, "serve", "--model", f"m={Arguments.tiny}", "--port", "0",
             "--access-log"],
            stdout=output,
            stderr=errors,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(output)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            errors.seek(0)
            for line in errors.read().splitlines():
                if "listening on" in line:
                    return process, int(line.rsplit(":", 1)[1])
            time.sleep(0.02)
        self.fail("the server does not listen")

    def request_often(self, port, times):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            for _ in range(times):
                sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertIn(b"HTTP/1.1 ", sock.recv(4096))

    def test_a_log_whose_reader_has_gone_does_not_end_the_server(self):
        read, write = os.pipe()
        process, port = self.start(write)
        os.close(read)
        self.request_often(port, 50)
        time.sleep(0.2)  # the log is written later than the answers
        self.request_often(port, 50)
        process.terminate()
        self.assertEqual(process.wait(timeout=30), 0)

    def test_a_log_whose_reader_has_stopped_holds_up_neither_requests_nor_the_end(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        process, port = self.start(write)
        self.request_often(port, 1000)  # about 200 kB of log; a pipe takes 64
        process.terminate()
        self.assertEqual(process.wait(timeout=30), 0)
        lines = os.read(read, 1 << 16).decode().splitlines()
        self.assertEqual(json.loads(lines[0])["path"], "/health")


class Keys(unittest.TestCase):
    def test_a_directory_in_the_place_of_the_keys_leaves_keys_and_signals_as_they_were(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = write_keys(folder, "k-1")
            server = RunningServer(Arguments.program, Arguments.tiny, "--api-keys", keys)
            os.remove(keys)
            os.mkdir(keys)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 30
            while not any("stay as they were" in line for line in server.log):
                self.assertLess(time.monotonic(), deadline, server.log)
                time.sleep(0.02)
            answer = server.post(
                "/v1/embeddings", GOOD, headers={"Authorization": "Bearer k-1"}
            )
            self.assertEqual(answer.status, 200)
            self.assertEqual(server.close(), 0)


class RawVectors(unittest.TestCase):
    def test_similarity_is_the_cosine_of_a_model_that_does_not_normalise(self):
        rows = {"good": [300.0, 0.0], "morning": [200.0, 200.0], "river": [0.0, 5.0]}
        with tempfile.TemporaryDirectory() as folder:
            model = write_static_model(f"{folder}/raw", Arguments.tiny, rows, {"normalize": False})
            server = RunningServer(Arguments.program, model)
            sentences = {"source_sentence": "good", "sentences": ["good", "morning", "river"]}
            got = server.post("/similarity", {"inputs": sentences}).json()
            self.assertEqual(server.close(), 0)
        for value, expected in zip(got, (1.0, 0.5**0.5, 0.0)):
            self.assertAlmostEqual(value, expected, delta=1e-6)


class Info(unittest.TestCase):
    def test_a_model_without_a_limit_takes_what_a_body_can_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = {"good": [1.0, 0.0]}
            model = write_static_model(f"{folder}/m", Arguments.tiny, rows, {"max_length": None})
            for options, expected in (((), 1_000_000), (("--max-length", 7), 7)):
                server = RunningServer(
                    Arguments.program, model, "--max-body-bytes", 1_000_000, *options
                )
                info = server.request("GET", "/info").json()
                self.assertEqual(server.close(), 0)
                self.assertEqual(info["max_input_length"], expected)


class Descriptors(unittest.TestCase):
    def test_running_out_of_them_is_said_once_and_passes(self):
        limit = 64
        server = RunningServer(
            Arguments.program, Arguments.tiny, prefix=("prlimit", f"--nofile={limit}:{limit}")
        )
        try:
            with contextlib.ExitStack() as sockets:
                for _ in range(limit):
                    address = ("127.0.0.1", server.port)
                    sockets.enter_context(socket.create_connection(address, timeout=20))
                deadline = time.monotonic() + 20
                while not any("cannot accept" in line for line in server.log):
                    self.assertLess(time.monotonic(), deadline, server.log)
                    time.sleep(0.02)
                before = cpu_seconds(server.process.pid)
                time.sleep(1)
                self.assertLess(cpu_seconds(server.process.pid) - before, 0.1)
            self.assertEqual(server.post("/v1/embeddings", GOOD).status, 200)
            (said,) = [line for line in server.log if "cannot accept" in line]
            self.assertRegex(said, r"beside the \d+ that are open: Too many open files$")
        finally:
            self.assertEqual(server.close(), 0)


class End(unittest.TestCase):
    def test_models_that_still_load_are_not_waited_for(self):
        many = [part for i in range(200) for part in ("--model", f"m{i}={Arguments.model}")]
        server = RunningServer(Arguments.program, Arguments.model, *many, wait=False)
        self.assertEqual(server.close(), 0)
        self.assertFalse([line for line in server.log if "serving" in line])


if __name__ == "__main__":
    main()
