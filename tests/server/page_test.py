#!/usr/bin/env python3
"""The page at / in headless Chromium: texts are typed, similarities are read.

    page_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]

SPRAT_SCREENSHOTS=FOLDER keeps pictures of what was seen.
"""

import math
import os
import tempfile
import unittest
import urllib.parse

from browser import Browser, find_chromium
from harness import Arguments, main
from running_server import RunningServer

ROWS = """[...document.querySelectorAll('#rows li')].map(
    row => [row.querySelector('output').textContent, row.querySelector('div').textContent])"""
DONE = "!document.querySelector('#compare').disabled && document.querySelector('#note').textContent"


@unittest.skipUnless(find_chromium(), "there is no Chromium")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def serve(self, *options):
        server = RunningServer(Arguments.program, Arguments.model, *options)
        self.addCleanup(lambda: self.assertEqual(server.close(), 0))
        return server, f"http://127.0.0.1:{server.port}/"

    def picture(self, name):
        if folder := os.environ.get("SPRAT_SCREENSHOTS"):
            self.browser.screenshot(os.path.join(folder, name + ".png"))

    def cosine(self, server, a, b, **more):
        body = {"inputs": {"source_sentence": a, "sentences": [b]}}
        return server.post("/similarity", body, **more).json()[0]

    def test_typed_texts_are_compared(self):
        server, url = self.serve()
        self.browser.open(url)
        self.picture("page_before")
        texts = ["a kitten sleeps", "stock prices fell", "the cat is napping <b>&amp;</b>"]
        self.browser.type("#texts", "\n".join(texts))
        self.browser.click("#compare")
        note = self.browser.wait_for(DONE)
        self.assertRegex(note, r"^m: 384 dimensions, \d+ tokens, [\d.]+ ms$")
        rows = self.browser.evaluate(ROWS)
        self.assertEqual([text for _, text in rows], [texts[2], texts[1]])  # the nearest first
        for shown, text in rows:
            self.assertAlmostEqual(
                float(shown), self.cosine(server, texts[0], text), delta=0.0006
            )
        self.assertEqual(self.browser.evaluate("document.querySelector('#first').textContent"),
                         texts[0])
        self.picture("page_after")
        self.browser.type("#texts", "alone")
        self.browser.click("#compare")
        self.assertEqual(self.browser.wait_for(DONE), "Two lines at least.")
        self.assertEqual(self.browser.evaluate(ROWS), [])

    def test_a_link_compares_at_once(self):
        server, url = self.serve()
        texts = ["Straße & Öl", "street + oil"]
        self.browser.open(url + "?" + urllib.parse.urlencode([("text", text) for text in texts]))
        self.browser.wait_for(DONE)
        ((shown, text),) = self.browser.evaluate(ROWS)
        self.assertEqual(text, texts[1])
        self.assertAlmostEqual(float(shown), self.cosine(server, *texts), delta=0.0006)

    def test_a_key_and_a_model_are_asked_for_where_they_are_needed(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("k-1\n")
            keys.flush()
            models = (f"one={Arguments.model}", f"two={Arguments.tiny}")
            _, url = self.serve("--api-keys", keys.name, "--model", models[0], "--model", models[1])
            self.browser.open(url)
            visible = "[...document.querySelectorAll('#lock, #choice')].map(e => !e.hidden)"
            self.assertEqual(self.browser.evaluate(visible), [False, False])
            self.browser.click("#compare")
            self.assertIn("API key", self.browser.wait_for(DONE))
            self.assertEqual(
                self.browser.evaluate("document.querySelector('#note').className"), "error"
            )
            self.browser.type("#key", "k-1")
            self.browser.click("#compare")
            self.assertIn("one: 384 dimensions", self.browser.wait_for(f"{ROWS}.length && {DONE}"))
            self.browser.evaluate("document.querySelector('#model').value = 'two'")
            self.browser.click("#compare")
            self.browser.wait_for("document.querySelector('#note').textContent.startsWith('two')")
            self.picture("page_key_and_models")
            self.assertEqual(self.browser.evaluate(visible), [True, True])
            for shown, _ in self.browser.evaluate(ROWS):
                self.assertFalse(math.isnan(float(shown)))


if __name__ == "__main__":
    main()
