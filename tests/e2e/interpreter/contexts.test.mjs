// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, e2b, serviceFetch, template, withSandbox } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000, envs: { FROM_CREATE: 'of the sandbox' } });
});
after(() => sandbox?.kill());

const text = async (code, options) => {
  const ran = await sandbox.runCode(code, options);
  assert.equal(ran.error, undefined, JSON.stringify(ran.error));
  return ran.text;
};

test('the first code in a new sandbox runs', async () => {
  await withSandbox({}, async (fresh) => assert.equal((await fresh.runCode('1+1')).text, '2'));
});

test('health, and two default contexts in the home of the user', async () => {
  const health = await serviceFetch(sandbox, 49999, '/health');
  assert.deepEqual([health.status, await health.json()], [200, 'OK']);
  const list = await sandbox.listCodeContexts();
  assert.deepEqual(
    list.slice(0, 2).map((each) => [each.language, each.cwd]),
    [
      ['python', '/home/user'],
      ['javascript', '/home/user'],
    ],
  );
});

test('variables live on, and executions are counted', async () => {
  await text('kept = 20');
  const ran = await sandbox.runCode('kept + 1');
  assert.equal(ran.text, '21');
  assert.ok(ran.executionCount > 1);
});

test('contexts do not share variables, and have directories of their own', async () => {
  const context = await sandbox.createCodeContext({ cwd: '/tmp' });
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp']);
  await text('own = 1', { context });
  assert.equal(await text('import os; os.getcwd()', { context }), '/tmp');
  assert.equal((await sandbox.runCode('own')).error.name, 'NameError');
  assert.equal((await sandbox.listCodeContexts()).at(-1).id, context.id);
  await sandbox.removeCodeContext(context);
  assert.ok((await sandbox.listCodeContexts()).every((each) => each.id !== context.id));
  await assert.rejects(sandbox.runCode('1', { context }), e2b.NotFoundError);
});

test('a restarted context has lost its variables and works', async () => {
  const context = await sandbox.createCodeContext();
  await text('lost = 1', { context });
  await sandbox.restartCodeContext(context.id);
  assert.equal((await sandbox.runCode('lost', { context })).error.name, 'NameError');
  assert.equal(await text('2', { context }), '2');
});

test('code that runs ends with a word when its context is restarted', async () => {
  const context = await sandbox.createCodeContext();
  let begun;
  const started = new Promise((resolve) => (begun = resolve));
  const running = sandbox.runCode('print("on", flush=True)\nimport time\nwhile True: time.sleep(0.1)', {
    context,
    onStdout: begun,
  });
  await started;
  await sandbox.restartCodeContext(context);
  assert.equal((await running).error.name, 'KernelRestarted');
  assert.equal(await text('3', { context }), '3');
});

test('calls to one context run in their order, one at a time', async () => {
  const context = await sandbox.createCodeContext();
  await text('seen = []', { context });
  const code = (n) => `import time\nseen.append(${n}); time.sleep(0.02); seen.append(${n})`;
  await Promise.all([1, 2, 3, 4, 5].map((n) => sandbox.runCode(code(n), { context })));
  const seen = JSON.parse(await text('str(seen)', { context }));
  for (let at = 0; at < seen.length; at += 2) assert.equal(seen[at], seen[at + 1]);
  assert.equal(seen.length, 10);
});

test('contexts run at the same time', async () => {
  const contexts = await Promise.all([1, 2, 3].map(() => sandbox.createCodeContext()));
  // Each waits for the file of the next one: only together they can end.
  const code = (n) => `
import os, time
open('/tmp/turn-${n}', 'w').close()
while not os.path.exists('/tmp/turn-${(n + 1) % 3}'): time.sleep(0.01)
'together'`;
  const texts = await Promise.all(contexts.map((context, n) => text(code(n), { context })));
  assert.deepEqual(texts, ['together', 'together', 'together']);
});

test('environment: of the sandbox, and of one call', async () => {
  assert.equal(await text('import os; os.environ["FROM_CREATE"]'), 'of the sandbox');
  const envs = { ONLY_HERE: 'now', FROM_CREATE: 'other' };
  assert.equal(await text('os.environ["ONLY_HERE"] + os.environ["FROM_CREATE"]', { envs }), 'nowother');
  assert.equal(await text('os.environ.get("ONLY_HERE", "gone")'), 'gone');
  assert.equal(await text('os.environ["FROM_CREATE"]'), 'of the sandbox');
  assert.equal(await text('os.environ["E2B_SANDBOX_ID"]'), sandbox.sandboxId);
  assert.equal(await text('process.env.FROM_CREATE', { language: 'js' }), 'of the sandbox');
});

test('what is wrong with a request is said', async () => {
  await assert.rejects(sandbox.createCodeContext({ language: 'cobol' }), /400|not installed/);
  await assert.rejects(sandbox.createCodeContext({ cwd: '/no/such/folder' }), /400|does not exist/);
  const both = await serviceFetch(sandbox, 49999, '/execute', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-access-token': sandbox.envdAccessToken ?? '' },
    body: JSON.stringify({ code: '1', context_id: 'x', language: 'python' }),
  });
  assert.equal(both.status, 400);
});

test('code runs only for those who have the access token of a secured sandbox', async () => {
  await withSandbox({}, async (fresh) => {
    for (const token of ['', 'wrong']) {
      const refused = await serviceFetch(fresh, 49999, '/execute', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-access-token': token },
        body: JSON.stringify({ code: '1' }),
      });
      assert.equal(refused.status, 401);
    }
    assert.equal((await fresh.runCode('5')).text, '5');
  });
});
