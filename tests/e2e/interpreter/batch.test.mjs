// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, serviceFetch, template } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
});
after(() => sandbox?.kill());

async function batch(body, token = sandbox.envdAccessToken) {
  const answer = await serviceFetch(sandbox, 49983, '/batch', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-access-token': token ?? '' },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (answer.status !== 200) return { status: answer.status, text };
  const lines = text.trim().split('\n').map((line) => JSON.parse(line));
  const of = (step) => lines.filter((line) => line.step === step);
  return { status: 200, text, lines, of, ok: lines.at(-1).end.ok };
}

test('files, commands and code in one request', async () => {
  const ran = await batch({
    steps: [
      { write: 'in.csv', content: 'a,b\n1,2\n3,4\n' },
      { id: 'count', command: 'wc -l < in.csv' },
      { id: 'sum', code: 'import pandas as pd; int(pd.read_csv("in.csv").a.sum())' },
      { id: 'js', code: 'process.env.ONE', language: 'js', envs: { ONE: 'one' } },
      { id: 'keep', code: 'open("out.txt", "w").write("done"); None' },
      { id: 'read', read: 'out.txt' },
    ],
  });
  assert.equal(ran.ok, true, ran.text);
  assert.equal(Buffer.from(ran.of('count')[0].event.stdout, 'base64').toString().trim(), '3');
  assert.equal(ran.of('sum').find((line) => line.event?.type === 'result').event.text, '4');
  assert.equal(ran.of('js').find((line) => line.event?.type === 'result').event.text, 'one');
  assert.equal(Buffer.from(ran.of('read')[0].done.result.base64, 'base64').toString(), 'done');
});

test('code that fails ends the batch; the context keeps its variables', async () => {
  await sandbox.runCode('kept = 1');
  const ran = await batch({ steps: [{ id: 'a', code: 'kept += 1\n1/0' }, { id: 'b', code: 'kept' }] });
  assert.equal(ran.ok, false);
  assert.equal(ran.of('a').find((line) => line.event?.type === 'error').event.name, 'ZeroDivisionError');
  assert.equal(ran.of('b')[0].skipped, 'step a failed');
  assert.equal((await sandbox.runCode('kept')).text, '2');
});

test('a repeated batch is answered and not run again', async () => {
  const request = { key: 'once', steps: [{ id: 'a', code: 'n = globals().get("n", 0) + 1; n' }] };
  const first = await batch(request);
  assert.equal((await batch(request)).text, first.text);
  assert.equal((await sandbox.runCode('n')).text, '1');
  assert.equal((await batch({ ...request, steps: [{ code: '2' }] })).status, 409);
});

test('only for those who have the access token', async () => {
  assert.equal((await batch({ steps: [{ command: 'true' }] }, 'wrong')).status, 401);
});
