// SPDX-License-Identifier: Apache-2.0
// Calls that a later version brings say so clearly, and break nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, e2b, template } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 120_000 });
});
after(() => sandbox?.kill());

const says501 = (error) => {
  assert.match(error.message, /501/, error.message);
  assert.ok(error.message.length > 20, 'it says more than the number');
  return true;
};

test('templates through the API', async () => {
  const build = e2b.Template().fromImage('debian:12').runCmd('true');
  await assert.rejects(e2b.Template.build(build, 'e2e-template', { alias: 'e2e-template' }), /501/);
});

test('secrets and volumes', async () => {
  if (e2b.Secret) await assert.rejects(e2b.Secret.create('name', 'value'), /501/);
  if (e2b.Volume) await assert.rejects(e2b.Volume.create('name'), /501/);
});

test('every such call has the same shape', async () => {
  const calls = [
    ['POST', '/v3/templates'],
    ['POST', '/secrets'],
    ['GET', '/secrets'],
    ['POST', '/volumes'],
    ['GET', '/volumes'],
  ];
  for (const [method, path] of calls) {
    const answer = await apiFetch(path, {
      method,
      ...(method === 'POST' ? { body: '{}', headers: { 'content-type': 'application/json' } } : {}),
    });
    assert.equal(answer.status, 501, path);
    const body = await answer.json();
    assert.equal(body.code, 501, path);
    assert.ok(body.message, path);
  }
});
