// SPDX-License-Identifier: Apache-2.0
// One tenant never sees what belongs to another: the same answer as for what does not exist.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, template } from '../lib/target.mjs';

let mine, strangerKey, strangers;
const as = (key, path, init = {}) =>
  apiFetch(path, { ...init, headers: { 'X-API-Key': key, ...(init.headers ?? {}) } });
const post = (body) => ({
  method: 'POST',
  body: JSON.stringify(body),
  headers: { 'content-type': 'application/json' },
});

before(async () => {
  const name = `stranger-${process.pid}`;
  const tenant = await (await apiFetch('/v1/tenants', post({ name }))).json();
  const made = await apiFetch('/v1/keys', post({ name: 'e2e', tenant: tenant.id ?? tenant.tenant ?? name }));
  assert.equal(made.status, 201, await made.clone().text());
  strangerKey = (await made.json()).key;
  mine = await Sandbox.create(template, { timeoutMs: 120_000, metadata: { owner: 'me' } });
  strangers = await Sandbox.create(template, { timeoutMs: 120_000, apiKey: strangerKey });
});
after(() =>
  Promise.all([mine?.kill(), strangers && Sandbox.kill(strangers.sandboxId, { apiKey: strangerKey })]),
);

test('keys are of the published form', () => assert.match(strangerKey, /^e2b_[0-9a-f]{40}$/));

test('every call on a sandbox of another tenant answers as if it did not exist', async () => {
  const calls = (id) => [
    ['GET', `/sandboxes/${id}`],
    ['DELETE', `/sandboxes/${id}`],
    ['POST', `/sandboxes/${id}/timeout`, { timeout: 1 }],
    ['POST', `/sandboxes/${id}/connect`, { timeout: 10 }],
    ['POST', `/v2/sandboxes/${id}/connect`, {}],
    ['GET', `/sandboxes/${id}/metrics`],
    ['GET', `/sandboxes/${id}/logs`],
    ['GET', `/v2/sandboxes/${id}/logs`],
    ['PUT', `/sandboxes/${id}/network`, {}],
    ['POST', `/sandboxes/${id}/refreshes`, { duration: 10 }],
  ];
  const unknown = 'i' + 'z'.repeat(20);
  for (const [n, [method, path, body]] of calls(mine.sandboxId).entries()) {
    const init = body ? { ...post(body), method } : { method };
    const theirs = await as(strangerKey, path, init);
    const nobody = await as(strangerKey, calls(unknown)[n][1], init);
    assert.equal(theirs.status, 404, `${method} ${path}`);
    assert.equal(nobody.status, 404, `${method} of an unknown one`);
    const [a, b] = [await theirs.text(), await nobody.text()];
    assert.equal(a.replaceAll(mine.sandboxId, 'ID'), b.replaceAll(unknown, 'ID'));
  }
  assert.equal(await mine.isRunning(), true);
});

test("lists and metrics show only what is one's own", async () => {
  const list = await (await as(strangerKey, '/v2/sandboxes')).json();
  assert.deepEqual(
    list.map((row) => row.sandboxID),
    [strangers.sandboxId],
  );
  const own = await (await apiFetch('/v2/sandboxes?limit=100')).json();
  assert.ok(!own.some((row) => row.sandboxID === strangers.sandboxId));
  const metrics = await (await as(strangerKey, `/sandboxes/metrics?sandbox_ids=${mine.sandboxId}`)).json();
  assert.equal(metrics.sandboxes?.[mine.sandboxId], undefined);
  const filtered = await (await as(strangerKey, '/v2/sandboxes?metadata=owner%3Dme')).json();
  assert.deepEqual(filtered, []);
});

test("a member's key cannot make tenants or see the host", async () => {
  assert.equal((await as(strangerKey, '/v1/tenants', post({ name: 'x' }))).status, 403);
  const keys = await (await as(strangerKey, '/v1/keys')).json();
  assert.ok(!JSON.stringify(keys).includes(strangerKey), 'keys are not shown again');
});

test('a revoked key stops working at once', async () => {
  const made = await (await as(strangerKey, '/v1/keys', post({ name: 'short-lived' }))).json();
  assert.equal((await as(made.key, '/v2/sandboxes')).status, 200);
  assert.ok((await as(strangerKey, `/v1/keys/${made.id}`, { method: 'DELETE' })).status < 300);
  assert.equal((await as(made.key, '/v2/sandboxes')).status, 401);
});
