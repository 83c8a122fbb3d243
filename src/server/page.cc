// The page at "/": type some texts, see how similar they are. Self-contained: nothing is fetched
// but this server's own /v1/embeddings.
#include "server/routes.h"

namespace sprat::server {
namespace {

constexpr std::string_view kDocument = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sprat</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
         color: #1c2430; background: #fff; }
  h1 { font-size: 1.4rem; margin: 0 0 .25rem; }
  p { margin: .25rem 0 1rem; color: #50596a; }
  label { display: block; font-weight: 600; margin: .75rem 0 .25rem; }
  textarea, input { width: 100%; box-sizing: border-box; font: inherit; padding: .5rem;
                    border: 1px solid #b8c0cc; border-radius: 4px; }
  textarea { height: 11rem; }
  button { margin: 1rem 0; font: inherit; padding: .45rem 1.2rem; border: 0; border-radius: 4px;
           background: #1f5fbf; color: #fff; cursor: pointer; }
  table { border-collapse: collapse; width: 100%; }
  td { padding: .3rem .5rem; border-top: 1px solid #e3e7ed; vertical-align: top; }
  td:first-child { width: 4rem; text-align: right; font-variant-numeric: tabular-nums; }
  meter { width: 100%; }
  .error { color: #a32020; }
</style>
<h1>Sprat</h1>
<p>The first line is compared with each line below it.</p>
<form id="form">
  <label for="texts">Texts, one a line</label>
  <textarea id="texts">How do I reset my password?
I forgot my login and cannot get in.
The recipe needs two eggs and some flour.
Changing your credentials takes a minute.</textarea>
  <label for="key">API key, if the server asks for one</label>
  <input id="key" type="password" autocomplete="off">
  <button>Compare</button>
</form>
<p id="note" role="status"></p>
<table id="rows"></table>
<script>
const form = document.getElementById('form');
const note = document.getElementById('note');
const rows = document.getElementById('rows');
form.addEventListener('submit', async event => {
  event.preventDefault();
  rows.replaceChildren();
  note.className = '';
  const input = document.getElementById('texts').value.split('\n').filter(line => line.trim());
  if (input.length < 2) { note.textContent = 'Two lines at least.'; return; }
  const key = document.getElementById('key').value;
  const headers = {'Content-Type': 'application/json'};
  if (key) headers.Authorization = 'Bearer ' + key;
  try {
    let model;
    const list = await fetch('/v1/models', {headers});
    if (list.ok) model = (await list.json()).data[0].id;
    const begin = performance.now();
    const answer = await fetch('/v1/embeddings',
                               {method: 'POST', headers, body: JSON.stringify({input, model})});
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error.message);
    const took = performance.now() - begin;
    const vectors = body.data.map(entry => entry.embedding);
    note.textContent = `${body.model}: ${vectors[0].length} dimensions, ` +
        `${body.usage.total_tokens} tokens, ${took.toFixed(1)} ms`;
    const scored = vectors.slice(1).map((vector, i) => ({
      text: input[i + 1], cosine: vector.reduce((sum, x, k) => sum + x * vectors[0][k], 0)}));
    scored.sort((a, b) => b.cosine - a.cosine);
    for (const {text, cosine} of scored) {
      const row = rows.insertRow();
      row.insertCell().textContent = cosine.toFixed(3);
      const cell = row.insertCell();
      cell.textContent = text;
      const bar = document.createElement('meter');
      bar.value = Math.max(0, cosine);
      cell.appendChild(document.createElement('br'));
      cell.appendChild(bar);
    }
  } catch (fault) {
    note.className = 'error';
    note.textContent = fault.message;
  }
});
</script>
</html>
)html";

}  // namespace

std::string_view PageDocument() { return kDocument; }

}  // namespace sprat::server
