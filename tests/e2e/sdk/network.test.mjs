// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Sandbox, apiFetch, baseUrl, needs, template, withSandbox } from '../lib/target.mjs';

// "open", "refused" or "silent": how a TCP connection out of the sandbox ends.
async function reach(sandbox, host, port) {
  const out = await sandbox.commands.run(
    `timeout 3 bash -c 'exec 3<>/dev/tcp/${host}/${port}' 2>&1; echo code=$?`,
  );
  if (/code=0/.test(out.stdout)) return 'open';
  return /code=124/.test(out.stdout) ? 'silent' : 'refused';
}

test('the machine that runs the sandbox is out of reach', async () => {
  const port = new URL(baseUrl).port;
  await withSandbox({}, async (sandbox) => {
    for (const host of [
      '169.254.0.22',
      '100.64.0.1',
      '127.0.0.1',
      '169.254.169.254',
      '10.0.0.1',
      '192.168.0.1',
      '172.17.0.1',
    ]) {
      assert.notEqual(await reach(sandbox, host, port), 'open', host);
    }
  });
});

test('one sandbox cannot reach another', async () => {
  await withSandbox({}, (first) =>
    withSandbox({}, async (second) => {
      await first.commands.run('python3 -m http.server 8123 --directory /tmp', { background: true });
      assert.notEqual(await reach(second, '169.254.0.21', 8123), 'open');
    }),
  );
});

test('allowInternetAccess: false is kept', async () => {
  await withSandbox({ allowInternetAccess: false }, async (sandbox) => {
    const answer = await (await apiFetch(`/sandboxes/${sandbox.sandboxId}`)).json();
    assert.equal(answer.allowInternetAccess, false);
    assert.notEqual(await reach(sandbox, '1.1.1.1', 443), 'open');
  });
});

test('rules are kept and replaced whole', needs('updateNetwork'), async () => {
  await withSandbox(
    { network: { allowOut: ['1.1.1.1', '8.8.8.0/24'], denyOut: ['0.0.0.0/0'] } },
    async (sandbox) => {
      const info = await sandbox.getInfo();
      assert.deepEqual(info.network?.allowOut, ['1.1.1.1', '8.8.8.0/24']);
      assert.deepEqual(info.network?.denyOut, ['0.0.0.0/0']);
      await sandbox.updateNetwork({ denyOut: ['9.9.9.9'] });
      const after = await sandbox.getInfo();
      assert.deepEqual(after.network?.denyOut, ['9.9.9.9']);
      assert.deepEqual(after.network?.allowOut ?? [], []);
    },
  );
});

test('bad rules are refused', async () => {
  const bad = [
    { denyOut: ['example.com'] },
    { denyOut: ['1.2.3.4/33'] },
    { allowOut: ['01.2.3.4'] },
    { denyOut: 'x' },
  ];
  for (const network of bad) {
    const answer = await apiFetch('/sandboxes', {
      method: 'POST',
      body: JSON.stringify({ templateID: template, timeout: 30, network }),
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(answer.status, 400, JSON.stringify(network));
    assert.equal((await answer.json()).code, 400);
  }
});

test('rules of a sandbox that is gone', needs('updateNetwork'), async () => {
  const sandbox = await Sandbox.create(template, { timeoutMs: 30_000 });
  await sandbox.kill();
  await assert.rejects(sandbox.updateNetwork({ denyOut: [] }), /not found|404/i);
});
