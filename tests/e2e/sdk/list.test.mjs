// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, needs, template } from '../lib/target.mjs';

const label = randomUUID();
const sandboxes = [];

before(async () => {
  for (const n of [1, 2, 3]) {
    sandboxes.push(
      await Sandbox.create(template, {
        timeoutMs: 120_000,
        metadata: { label, n: String(n), odd: 'a b&c=ü+%25/?' },
      }),
    );
  }
});
after(() => Promise.all(sandboxes.map((sandbox) => sandbox.kill())));

const ids = (items) => items.map((item) => item.sandboxId);
const made = () => sandboxes.map((sandbox) => sandbox.sandboxId);

async function all(options) {
  const pages = Sandbox.list(options);
  const items = [];
  while (pages.hasNext) items.push(...(await pages.nextItems()));
  return items;
}

test('metadata filters', async () => {
  assert.deepEqual(new Set(ids(await all({ query: { metadata: { label } } }))), new Set(made()));
  assert.deepEqual(ids(await all({ query: { metadata: { label, n: '2' } } })), [sandboxes[1].sandboxId]);
  assert.deepEqual(ids(await all({ query: { metadata: { label, odd: 'a b&c=ü+%25/?' } } })).length, 3);
  assert.deepEqual(await all({ query: { metadata: { label, n: '9' } } }), []);
});

test('newest first by default', async () => {
  assert.deepEqual(ids(await all({ query: { metadata: { label } } })), made().reverse());
});

test('order', needs('startedAfter'), async () => {
  assert.deepEqual(ids(await all({ query: { metadata: { label } }, order: 'asc' })), made());
  assert.deepEqual(ids(await all({ query: { metadata: { label } }, order: 'desc' })), made().reverse());
});

test('pages', async () => {
  const pages = Sandbox.list({ query: { metadata: { label } }, limit: 2 });
  const first = await pages.nextItems();
  assert.equal(first.length, 2);
  assert.equal(pages.hasNext, true);
  assert.ok(pages.nextToken);
  const second = await pages.nextItems();
  assert.equal(second.length, 1);
  assert.equal(pages.hasNext, false);
  assert.deepEqual([...ids(first), ...ids(second)], made().reverse());
  const from = Sandbox.list({ query: { metadata: { label } }, limit: 1, nextToken: undefined });
  assert.equal((await from.nextItems()).length, 1);
  const rest = Sandbox.list({ query: { metadata: { label } }, limit: 5, nextToken: from.nextToken });
  assert.deepEqual(ids(await rest.nextItems()), made().reverse().slice(1));
});

test('a page that is exactly full is the last', async () => {
  const pages = Sandbox.list({ query: { metadata: { label } }, limit: 3 });
  assert.equal((await pages.nextItems()).length, 3);
  assert.equal(pages.hasNext, false);
});

test('states', async () => {
  assert.equal((await all({ query: { metadata: { label }, state: ['running'] } })).length, 3);
  assert.equal((await all({ query: { metadata: { label }, state: ['running', 'paused'] } })).length, 3);
  assert.equal((await all({ query: { metadata: { label }, state: ['paused'] } })).length, 0);
});

test('start time', needs('startedAfter'), async () => {
  const times = (await all({ query: { metadata: { label } }, order: 'asc' })).map((item) => item.startedAt);
  assert.equal(
    (await all({ query: { metadata: { label }, startedAfter: new Date(times[0].getTime() - 1000) } })).length,
    3,
  );
  const last = await all({ query: { metadata: { label }, startedAfter: times[2] } });
  assert.ok(ids(last).includes(sandboxes[2].sandboxId), 'the bound is inclusive');
  assert.equal(
    (await all({ query: { metadata: { label }, startedAfter: new Date(Date.now() + 60_000) } })).length,
    0,
  );
});

test('template', async () => {
  const query = async (name) => {
    const answer = await apiFetch(
      `/v2/sandboxes?template=${name}&metadata=${encodeURIComponent(`label=${label}`)}`,
    );
    assert.equal(answer.status, 200);
    return (await answer.json()).length;
  };
  assert.equal(await query(template.split('@')[0]), 3);
  assert.equal(await query('no-such-template'), 0);
});

test('what is listed is complete', async () => {
  const [item] = await all({ query: { metadata: { label, n: '1' } } });
  assert.equal(item.state, 'running');
  assert.equal(item.metadata.n, '1');
  assert.ok(item.startedAt instanceof Date && item.endAt instanceof Date && item.endAt > item.startedAt);
  assert.ok(item.templateId && item.cpuCount && item.memoryMB && item.envdVersion);
});

test('bad queries are refused', async () => {
  for (const query of [
    'limit=0',
    'limit=101',
    'limit=x',
    'nextToken=%21%21',
    'state=bogus',
    'startedAfter=yesterday',
    'order=up',
  ]) {
    const answer = await apiFetch(`/v2/sandboxes?${query}`);
    assert.equal(answer.status, 400, query);
    assert.equal((await answer.json()).code, 400, query);
  }
});

test('the old listing works', async () => {
  const answer = await apiFetch(`/sandboxes?metadata=${encodeURIComponent(`label=${label}`)}`);
  assert.equal(answer.status, 200);
  assert.equal((await answer.json()).length, 3);
});

test('metrics of many at once', async () => {
  const answer = await apiFetch(`/sandboxes/metrics?sandbox_ids=${made().join(',')}`);
  assert.equal(answer.status, 200);
  assert.equal(typeof (await answer.json()).sandboxes, 'object');
});
