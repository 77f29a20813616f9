// SPDX-License-Identifier: Apache-2.0
// What the interpreter does in every tier, in one sandbox and few calls: all that runs where processors are emulated.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, e2b, serviceFetch, template, tier } from '../lib/target.mjs';

const kEmulated = { timeoutMs: 120_000, requestTimeoutMs: 120_000 }; // of calls that start something
const kChildren = 2;
const needsMemory = { skip: tier === 'container' && 'the tier container cannot store memory: docs/guides/isolation.md' };

let sandbox;
before(async () => {
  // A machine that boots on a busy host can miss its time; the next one is tried once more.
  const create = () => Sandbox.create(template, { timeoutMs: 600_000, envs: { COLOUR: 'blue' }, ...kEmulated });
  sandbox = await create().catch(create);
});
after(() => sandbox?.kill());

const post = (path, body) =>
  apiFetch(path, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });
const run = async (code, options, where = sandbox) => {
  const ran = await where.runCode(code, { ...kEmulated, ...options });
  assert.equal(ran.error, undefined, JSON.stringify(ran.error));
  return ran;
};

test('code, its environment, its output and its errors', async () => {
  assert.equal((await run('kept = 20; kept + 1')).text, '21');
  assert.equal((await run('import os; os.environ["COLOUR"]')).text, 'blue');
  const ran = await sandbox.runCode('print("out")\n1/0');
  assert.deepEqual([ran.logs.stdout.join(''), ran.error.name], ['out\n', 'ZeroDivisionError']);
  assert.equal((await run('echo $COLOUR', { language: 'bash' })).logs.stdout.join(''), 'blue\n');
});

test('a table and a chart', async () => {
  const { results } = await run(`
import matplotlib.pyplot as plt, pandas as pd
table = pd.DataFrame({"x": [1, 2], "y": [10, 20]})
plt.plot(table.x, table.y, label="l"); plt.show()
table`);
  assert.deepEqual(results[0].chart.elements, [{ label: 'l', points: [[1, 10], [2, 20]] }]);
  assert.ok(results[0].png.length > 100);
  assert.deepEqual(results[1].data, { x: [1, 2], y: [10, 20] });
});

test("code whose client's time is over is interrupted, and its context goes on", async () => {
  await assert.rejects(sandbox.runCode('while True: pass', { timeoutMs: 500 }), e2b.TimeoutError);
  assert.equal((await run('kept')).text, '20');
});

async function pauseAndConnect() {
  await sandbox.pause(kEmulated);
  await Sandbox.connect(sandbox.sandboxId, kEmulated);
}

test('variables outlive a pause', async () => {
  await pauseAndConnect();
  assert.equal((await run('kept')).text, '20');
  assert.equal((await run('echo $COLOUR', { language: 'bash' })).logs.stdout.join(''), 'blue\n');
});

// Before memory is stored: what lay on the disk of a kernel that is gone kept gVisor from that.
test('a kernel that dies is told of once, and a new one comes', async () => {
  const context = await sandbox.createCodeContext({ language: 'bash', ...kEmulated });
  const died = await sandbox.runCode('kill -9 $$', { context, ...kEmulated });
  assert.equal(died.error.name, 'KernelDied');
  assert.equal((await run('echo on', { context })).logs.stdout.join(''), 'on\n');
  await sandbox.restartCodeContext(context);
  await sandbox.removeCodeContext(context);
});

const draw = `
import os, random, uuid
import numpy
(kept, os.environ["E2B_SANDBOX_ID"], random.random(), float(numpy.random.rand()), str(uuid.uuid4()), os.urandom(8).hex())`;

async function drawn(where) {
  const [kept, name, ...numbers] = (await run(draw, {}, where)).text.slice(1, -1).split(/,\s+/);
  assert.equal(kept, '20');
  assert.equal(name, `'${where.sandboxId}'`, 'the name that its code sees');
  return [...numbers, (await run('echo $RANDOM-$RANDOM', { language: 'bash' }, where)).logs.stdout.join('')];
}

test('children of a warm interpreter go on with its variables, and draw other numbers', needsMemory, async () => {
  await run('import random, numpy; random.seed(1); numpy.random.seed(1)');
  await run('RANDOM=1', { language: 'bash' });
  const made = await post(`/sandboxes/${sandbox.sandboxId}/fork`, { count: kChildren, timeout: 300, memory: true });
  const answer = await made.json();
  assert.equal(made.status, 201, JSON.stringify(answer));
  const children = [];
  try {
    for (const entry of answer) {
      assert.ok(entry.sandbox?.sandboxID, JSON.stringify(entry));
      children.push(await Sandbox.connect(entry.sandbox.sandboxID, kEmulated));
    }
    const all = [await drawn(sandbox)];
    for (const child of children) all.push(await drawn(child));
    assert.equal(all.length, 1 + kChildren);
    for (let at = 0; at < all[0].length; ++at)
      assert.equal(new Set(all.map((each) => each[at])).size, all.length, JSON.stringify(all));
  } finally {
    await Promise.all(children.map((child) => child.kill()));
  }
});

test('a start from a warm memory needs no new kernel', needsMemory, async () => {
  const taken = await post(`/sandboxes/${sandbox.sandboxId}/snapshots`, { memory: true });
  const snapshot = await taken.json();
  assert.equal(taken.status, 201, JSON.stringify(snapshot));
  try {
    const warm = await Sandbox.create(snapshot.snapshotID, { timeoutMs: 300_000, ...kEmulated });
    try {
      assert.equal((await run('kept', {}, warm)).text, '20');
    } finally {
      await warm.kill();
    }
  } finally {
    await Sandbox.deleteSnapshot(snapshot.snapshotID);
  }
});

test('a step that was done under its key is not done again by a sandbox that has lost its memory', async () => {
  const steps = [{ id: 'count', command: 'echo run >> count.txt; cat count.txt' }, { id: 'code', code: '1 + 1' }];
  const batch = async () => {
    const answer = await serviceFetch(sandbox, 49983, '/batch', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-access-token': sandbox.envdAccessToken ?? '' },
      body: JSON.stringify({ key: 'once', steps }),
    });
    assert.equal(answer.status, 200);
    return answer.text();
  };
  const first = await batch();
  assert.equal(JSON.parse(first.trim().split('\n').at(-1)).end.ok, true, first);
  assert.equal((await post(`/sandboxes/${sandbox.sandboxId}/pause`, { memory: false })).status, 204);
  await Sandbox.connect(sandbox.sandboxId, kEmulated);
  assert.equal(await batch(), first);
  assert.equal(await sandbox.files.read('count.txt'), 'run\n');
});
