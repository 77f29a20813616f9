// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Sandbox, eventually, killed, template, within } from '../lib/target.mjs';

const kCount = 20;

test(`${kCount} sandboxes at once, each on its own`, { timeout: 120_000 }, async () => {
  const made = await Promise.allSettled(
    Array.from({ length: kCount }, (_, n) =>
      Sandbox.create(template, {
        timeoutMs: 120_000,
        envs: { N: String(n) },
        metadata: { parallel: String(n) },
      }),
    ),
  );
  const sandboxes = made.filter((each) => each.status === 'fulfilled').map((each) => each.value);
  try {
    assert.deepEqual(
      made.filter((each) => each.status === 'rejected').map((each) => each.reason.message),
      [],
    );
    assert.equal(new Set(sandboxes.map((sandbox) => sandbox.sandboxId)).size, kCount);
    await Promise.all(
      sandboxes.map(async (sandbox, n) => {
        await sandbox.files.write('own.txt', `file of ${n}`);
        const results = await Promise.all([
          sandbox.commands.run('echo $N; cat own.txt; hostname'),
          sandbox.commands.run('for i in 1 2 3 4 5; do echo $i; done'),
          sandbox.files.read('own.txt'),
        ]);
        assert.ok(results[0].stdout.startsWith(`${n}\nfile of ${n}`), results[0].stdout);
        assert.equal(results[1].stdout, '1\n2\n3\n4\n5\n');
        assert.equal(results[2], `file of ${n}`);
      }),
    );
    const pids = await Promise.all(
      sandboxes.map((sandbox) => sandbox.commands.run('ls -d /proc/[0-9]* | wc -l')),
    );
    for (const each of pids) assert.ok(Number(each.stdout) < 20, `a sandbox sees ${each.stdout} processes`);
  } finally {
    const found = await Promise.all(sandboxes.map(killed));
    assert.deepEqual(
      found,
      sandboxes.map(() => true),
    );
  }
  await eventually(
    'all are gone',
    async () => (await Promise.all(sandboxes.map((s) => s.isRunning()))).every((up) => !up),
    5_000,
  );
});

test('killing one does not touch the streams of others', { timeout: 60_000 }, async () => {
  const sandboxes = await Promise.all(
    Array.from({ length: 6 }, () => Sandbox.create(template, { timeoutMs: 120_000 })),
  );
  try {
    const running = sandboxes.map((sandbox) =>
      sandbox.commands.run('read -r l < <(sleep 2; echo done); echo $l', { timeoutMs: 30_000 }),
    );
    running.forEach((each) => each.catch(() => {}));
    await sandboxes[0].kill();
    await within(20_000, 'the killed one ends', assert.rejects(running[0]));
    for (const each of running.slice(1)) assert.equal((await each).stdout, 'done\n');
  } finally {
    await Promise.all(sandboxes.map((sandbox) => sandbox.kill()));
  }
});

test('create and kill in a row, many times', { timeout: 120_000 }, async () => {
  for (let n = 0; n < 15; ++n) {
    const sandbox = await Sandbox.create(template, { timeoutMs: 60_000 });
    assert.equal((await sandbox.commands.run('echo up')).stdout, 'up\n');
    assert.equal(await killed(sandbox), true);
  }
});
