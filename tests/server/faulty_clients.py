"""Clients of every kind at once: good ones, and ones that leave, mistype, dawdle or break off.

Each request goes out on schedule, whatever became of the last. What must not happen is an
AssertionError in `faults`: a wrong vector, a wrong status, an answer that never ends.
"""

import collections
import contextlib
import json
import random
import socket
import struct
import threading
import time

from running_server import read_all

WORDS = ["good", "morning", "invoice", "paid", "late", "the", "of", "Straße", "日本", "🙂", "a"]
BAD_BODIES = [
    "", "nul", "[]", '{"input":[1.5]}', '{"input":"a"', '{"input":"a","input":"b"}', '{"input":5}',
    '{"input":' + "[" * 40 + "]" * 40 + "}", '{"input":"a","dimensions":0}', '{"input":[[]]}',
]  # fmt: skip
LARGE_TEXTS = 400  # of a slow reader: an answer beyond what sockets buffer


def head(length, path=b"/v1/embeddings", more=b""):
    return (
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"%s\r\n" % (path, length, more)
    )


class FaultyClients:
    """Loads `server`, which serves `models` ({name: share of the requests}), from threads.

    The first model should be the fastest: it gets the largest requests.
    rate: requests a second of all clients together; 0: as fast as they can.
    """

    def __init__(self, server, models, clients=16, rate=0.0):
        self.server, self.models, self.clients, self.rate = server, models, clients, rate
        self.counts = collections.Counter()  # guarded by _lock, as are the next two
        self.faults = []
        self._started = 0
        self._longest = server.request("GET", "/info").json()["max_input_length"]
        self._lock = threading.Lock()
        self._texts = [" ".join(random.Random(i).choices(WORDS, k=1 + i % 40)) for i in range(60)]
        self._expected = {name: self._embed_all(name) for name in models}
        self._kinds = {
            self._good: 8, self._list: 3, self._tei: 2, self._tokens: 2, self._chunked: 1,
            self._pipelined: 1, self._bad_body: 4, self._leaves_in_the_body: 3,
            self._leaves_before_the_answer: 4, self._resets: 2, self._slow_reader: 1,
            self._nonsense: 1,
        }  # fmt: skip

    def run(self, seconds):
        begin = time.monotonic()
        threads = [
            threading.Thread(target=self._client, args=(seed, begin, begin + seconds))
            for seed in range(self.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def warm_up(self):
        """The largest requests that run() makes, from all clients at once."""
        threads = [
            threading.Thread(target=self._slow_reader, args=(random.Random(i), name))
            for i, name in enumerate(list(self.models)[:1] * self.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, seed, begin, end):
        rng = random.Random(seed)
        kinds, weights = list(self._kinds), list(self._kinds.values())
        while time.monotonic() < end:
            with self._lock:
                due = begin + self._started / self.rate if self.rate else 0.0
                self._started += 1
            time.sleep(max(0.0, min(due, end) - time.monotonic()))
            (kind,) = rng.choices(kinds, weights)
            (model,) = rng.choices(list(self.models), list(self.models.values()))
            try:
                outcome = kind(rng, model)
            except Exception as fault:  # noqa: BLE001: told by whoever looks at faults
                with self._lock:
                    self.faults.append(f"{kind.__name__}: {fault!r}")
                return
            with self._lock:
                self.counts[kind.__name__.strip("_"), outcome] += 1

    def _embed_all(self, model):
        answer = self.server.post("/v1/embeddings", {"model": model, "input": self._texts})
        return [row["embedding"] for row in answer.json()["data"]]

    def _post(self, path, body, expected=(200, 429)):
        answer = self.server.post(path, body)
        assert answer.status in expected, (path, answer.status, answer.body[:200])
        return answer

    def _connect(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=60)

    def _body(self, rng, model, largest=32):
        texts = [rng.choice(self._texts) for _ in range(rng.randrange(1, largest))]
        return json.dumps({"model": model, "input": texts}).encode()

    # The kinds of clients. Each makes one request and returns what came of it.

    def _good(self, rng, model):
        i = rng.randrange(len(self._texts))
        answer = self._post("/v1/embeddings", {"model": model, "input": self._texts[i]})
        if answer.status == 200:
            assert answer.json()["data"][0]["embedding"] == self._expected[model][i], i
        return answer.status

    def _list(self, rng, model):
        chosen = rng.choices(range(len(self._texts)), k=rng.randrange(2, 33))
        texts = [self._texts[i] for i in chosen]
        answer = self._post("/v1/embeddings", {"model": model, "input": texts})
        if answer.status == 200:
            rows = [row["embedding"] for row in answer.json()["data"]]
            assert rows == [self._expected[model][i] for i in chosen], chosen
        return answer.status

    def _tei(self, rng, _):
        first = next(iter(self.models))  # these routes name no model
        i = rng.randrange(len(self._texts))
        answer = self._post("/embed", {"inputs": self._texts[i]})
        if answer.status == 200:
            assert answer.json() == [self._expected[first][i]], i
        return answer.status

    def _tokens(self, rng, _):
        texts = rng.choices(self._texts, k=9)
        tokens = self._post("/tokenize", {"inputs": texts}, (200,)).json()
        ids = [[token["id"] for token in row] for row in tokens]
        decoded = self._post("/decode", {"ids": ids}, (200,)).json()
        assert len(decoded) == len(texts), decoded
        answer = self._post("/embed_all", {"inputs": texts})
        if answer.status == 200:
            rows = [len(vectors) for vectors in answer.json()]
            assert rows == [min(self._longest, len(row)) for row in ids], (rows, ids)
        return answer.status

    def _chunked(self, rng, model):
        body = self._body(rng, model)
        with contextlib.closing(self.server.connection()) as connection:
            parts = iter([body[:7], body[7:]])
            header = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/embeddings", parts, header, encode_chunked=True)
            answer = connection.getresponse()
            answer.read()
        assert answer.status in (200, 429), answer.status
        return answer.status

    def _pipelined(self, rng, model):
        body = self._body(rng, model, 4)
        last = head(len(body), more=b"Connection: close\r\n") + body
        received = self.server.raw((head(len(body)) + body) * 2 + last, timeout=60)
        answers = received.count(b"HTTP/1.1 200 ") + received.count(b"HTTP/1.1 429 ")
        assert answers == 3, received[:200]
        return 200

    def _bad_body(self, rng, _):
        return self._post("/v1/embeddings", rng.choice(BAD_BODIES), (400,)).status

    def _leaves_in_the_body(self, rng, model):
        body = self._body(rng, model)
        with self._connect() as sock:
            sock.sendall(head(len(body)) + body[: rng.randrange(len(body))])
        return "left"

    def _leaves_before_the_answer(self, rng, model):
        body = self._body(rng, model)
        with self._connect() as sock:
            sock.sendall(head(len(body)) + body)
            time.sleep(rng.choice((0, 0, 0.002)))
        return "left"

    def _resets(self, rng, model):
        body = self._body(rng, model)
        with self._connect() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(head(len(body)) + body)
        return "reset"

    def _slow_reader(self, rng, _):
        model = next(iter(self.models))
        texts = [rng.choice(self._texts) for _ in range(LARGE_TEXTS)]
        body = json.dumps({"model": model, "input": texts}).encode()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(60)
            sock.connect(("127.0.0.1", self.server.port))
            sock.sendall(head(len(body), more=b"Connection: close\r\n") + body)
            for _ in range(4):
                sock.recv(1000)
                time.sleep(0.1)
            if rng.randrange(2) == 0:
                return "left"
            return "read" if read_all(sock) else "ended"

    def _nonsense(self, rng, _):
        received = self.server.raw(rng.randbytes(300) + b"\r\n\r\n", timeout=60)
        assert received == b"" or received.startswith(b"HTTP/1.1 4"), received[:80]
        return "refused"
