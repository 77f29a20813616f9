// SPDX-License-Identifier: Apache-2.0
// Two hundred pauses and resumes under a program that writes all the time: no byte may be lost or doubled, no
// process may notice, nothing may slow down with the number of rounds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Sandbox, apiFetch, template } from '../lib/target.mjs';

const kRounds = 200;
const kDiskRounds = 10;

// Appends numbered lines, each with its checksum; goes on where a former run has stopped.
const writer = `
import hashlib, os
path = '/home/user/lines'
number = sum(1 for _ in open(path)) if os.path.exists(path) else 0
out = open(path, 'ab', buffering=0)
while True:
    number += 1
    text = str(number)
    out.write(f'{text} {hashlib.sha256(text.encode()).hexdigest()}\\n'.encode())
    if number % 100 == 0:
        os.fsync(out.fileno())
`;
const checker = `
import hashlib
count = 0
for line in open('/home/user/lines'):
    count += 1
    text, digest = line.split()
    assert int(text) == count, (text, count)
    assert digest == hashlib.sha256(text.encode()).hexdigest(), line
print(count)
`;

const post = (path, body) =>
  apiFetch(path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });

async function round(sandbox, memory) {
  const paused = await post(`/sandboxes/${sandbox.sandboxId}/pause`, { memory });
  assert.equal(paused.status, 204, await paused.text());
  const resumed = await post(`/v2/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 300 });
  assert.equal(resumed.status, 201, await resumed.text());
}

const start = async (sandbox) => {
  const command = await sandbox.commands.run('exec python3 /home/user/writer.py', {
    background: true,
    timeoutMs: 0,
  });
  await command.disconnect();
  return command.pid;
};
const count = async (sandbox) => {
  const lines = (await sandbox.commands.run('wc -l < /home/user/lines')).stdout;
  return Number(lines);
};

test(`${kRounds} pauses in memory, ${kDiskRounds} on disk, with a checksummed writer`, async () => {
  const sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
  try {
    await sandbox.files.write('/home/user/writer.py', writer);
    await sandbox.files.write('/home/user/check.py', checker);
    const pid = await start(sandbox);
    const times = [];
    for (let i = 0; i < kRounds; i += 1) {
      const begin = performance.now();
      await round(sandbox, true);
      times.push(performance.now() - begin);
    }
    times.sort((a, b) => a - b);
    console.error(`pause and resume: p50 ${times[kRounds / 2].toFixed(1)} ms, max ${times.at(-1).toFixed(1)} ms`);
    assert.ok((await sandbox.commands.list()).some((process) => process.pid === pid), 'the writer goes on');
    const before = await count(sandbox);
    assert.ok(before > 0);
    for (let i = 0; i < kDiskRounds; i += 1) {
      await round(sandbox, false);
      assert.ok((await count(sandbox)) >= before);
      await start(sandbox);
    }
    const checked = await sandbox.commands.run('pkill -STOP -f [w]riter.py; python3 /home/user/check.py', {
      timeoutMs: 60_000,
    });
    assert.ok(Number(checked.stdout) >= before, checked.stderr);
  } finally {
    await sandbox.kill();
  }
});
