// The page at "/": type some texts, see how similar they are; "/?text=..&text=.." does it at once.
// Self-contained: nothing is fetched but this server's own /v1/models and /v1/embeddings.
#include "server/routes.h"

namespace sprat::server {
namespace {

constexpr std::string_view kDocument = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sprat</title>
<style>
  :root { color-scheme: light dark; --ink: #1c2430; --soft: #5a6475; --line: #d5dae2;
          --paper: #fff; --fill: #f4f6f9; --accent: #1f5fbf; --bad: #a32020; }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #e6e9ee; --soft: #9aa5b5; --line: #39424f; --paper: #14181e; --fill: #1d232b;
            --accent: #6ea3f5; --bad: #ff8a80; }
  }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto;
         padding: 0 1rem; color: var(--ink); background: var(--paper); }
  h1 { font-size: 1.5rem; margin: 0; }
  p { margin: .25rem 0 1rem; color: var(--soft); }
  a { color: var(--accent); }
  label { display: block; font-weight: 600; margin: .75rem 0 .25rem; }
  textarea, input, select { width: 100%; box-sizing: border-box; font: inherit; color: inherit;
      padding: .5rem .6rem; border: 1px solid var(--line); border-radius: 6px;
      background: var(--fill); }
  textarea { height: 9rem; resize: vertical; }
  .side { display: flex; gap: 1rem; }
  .side > div { flex: 1; }
  button { margin: 1rem 0; font: inherit; font-weight: 600; padding: .5rem 1.4rem; border: 0;
           border-radius: 6px; background: var(--accent); color: var(--paper); cursor: pointer; }
  button:disabled { opacity: .5; cursor: default; }
  #first { font-weight: 600; margin: .5rem 0; color: var(--ink); overflow-wrap: anywhere; }
  ol { list-style: none; margin: 0; padding: 0; }
  li { display: flex; gap: .8rem; padding: .5rem 0; border-top: 1px solid var(--line); }
  li output { width: 3.5rem; text-align: right; font-variant-numeric: tabular-nums;
              font-weight: 600; }
  li div { flex: 1; min-width: 0; overflow-wrap: anywhere; }
  li i { display: block; height: 4px; margin-top: .3rem; border-radius: 2px;
         background: linear-gradient(var(--accent), var(--accent)) no-repeat var(--line); }
  .error { color: var(--bad); }
</style>
<h1>Sprat</h1>
<p>How alike are texts? The first line is compared with each line below it.
   The API: <a href="openapi.json">openapi.json</a>, <a href="metrics">metrics</a>.</p>
<form id="form">
  <label for="texts">Texts, one a line</label>
  <textarea id="texts" spellcheck="false">How do I reset my password?
I forgot my login and cannot get in.
The recipe needs two eggs and some flour.
Changing your credentials takes a minute.</textarea>
  <div class="side">
    <div id="choice" hidden><label for="model">Model</label><select id="model"></select></div>
    <div id="lock" hidden><label for="key">API key</label>
      <input id="key" type="password" autocomplete="off"></div>
  </div>
  <button id="compare">Compare</button>
</form>
<p id="note" role="status"></p>
<p id="first"></p>
<ol id="rows"></ol>
<script>
const $ = id => document.getElementById(id);
const headers = () => ({'Content-Type': 'application/json',
                        ...($('key').value && {Authorization: 'Bearer ' + $('key').value})});

// Asks for a key where one is needed, for a model where there are several.
async function call(path, body) {
  const answer = await fetch(path, {headers: headers(), ...(body && {
    method: 'POST', body: JSON.stringify(body)})});
  if (answer.status === 401) $('lock').hidden = false;
  const json = await answer.json();
  if (!answer.ok) throw new Error(json.error.message);
  return json;
}

async function listModels() {
  const models = (await call('v1/models')).data.map(model => model.id);
  const before = $('model').value;
  $('model').replaceChildren(...models.map(id => new Option(id)));
  if (models.includes(before)) $('model').value = before;
  $('choice').hidden = models.length < 2;
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const cosine = (a, b) => dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1);

function show(text, likeness) {
  const row = document.createElement('li');
  const number = document.createElement('output');
  number.textContent = likeness.toFixed(3);
  const cell = document.createElement('div');
  cell.textContent = text;
  const bar = document.createElement('i');
  bar.style.backgroundSize = Math.max(0, likeness) * 100 + '% 100%';
  cell.append(bar);
  row.append(number, cell);
  $('rows').append(row);
}

async function compare() {
  const input = $('texts').value.split('\n').filter(line => line.trim());
  if (input.length < 2) throw new Error('Two lines at least.');
  await listModels();
  const begin = performance.now();
  const body = await call('v1/embeddings', {input, model: $('model').value});
  const took = performance.now() - begin;
  const vectors = body.data.map(entry => entry.embedding);
  $('note').textContent = `${body.model}: ${vectors[0].length} dimensions, ` +
      `${body.usage.total_tokens} tokens, ${took.toFixed(1)} ms`;
  $('first').textContent = input[0];
  input.slice(1).map((text, i) => [text, cosine(vectors[0], vectors[i + 1])])
      .sort((a, b) => b[1] - a[1]).forEach(([text, likeness]) => show(text, likeness));
}

$('form').addEventListener('submit', async event => {
  event.preventDefault();
  $('compare').disabled = true;
  $('rows').replaceChildren();
  $('first').textContent = $('note').textContent = $('note').className = '';
  await compare().catch(fault => {
    $('note').className = 'error';
    $('note').textContent = fault.message;
  });
  $('compare').disabled = false;
});

// /?text=...&text=...: a comparison to link to.
const given = new URLSearchParams(location.search).getAll('text');
if (given.length > 0) {
  $('texts').value = given.join('\n');
  $('form').requestSubmit();
}
</script>
</html>
)html";

}  // namespace

std::string_view PageDocument() { return kDocument; }

}  // namespace sprat::server
