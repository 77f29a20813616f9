// SPDX-License-Identifier: Apache-2.0
// Sandboxes that come to rest and go on, by hand, at their deadline and on traffic.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Sandbox,
  apiFetch,
  eventually,
  needs,
  serviceFetch,
  template,
  withSandbox,
} from '../lib/target.mjs';

const pause = (sandbox) => (sandbox.pause ?? sandbox.betaPause).call(sandbox);
const post = (path, body) =>
  apiFetch(path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });
const stateOf = async (sandbox) =>
  (await (await apiFetch(`/sandboxes/${sandbox.sandboxId}`)).json()).state;
const stdout = async (sandbox, command) => (await sandbox.commands.run(command)).stdout.trim();

// With fields that old clients cannot send.
async function withCreated(fields, work) {
  const answer = await post('/sandboxes', { templateID: template, timeout: 120, secure: true, ...fields });
  assert.equal(answer.status, 201, await answer.clone().text());
  const { sandboxID } = await answer.json();
  try {
    return await work(await Sandbox.connect(sandboxID, { timeoutMs: 1_000 }));
  } finally {
    await apiFetch(`/sandboxes/${sandboxID}`, { method: 'DELETE' });
  }
}

// Field: resume after a pause answers 404 (e2b-dev/E2B#582).
test('processes, files and the token go on after a pause', async () => {
  await withSandbox({ envs: { COLOUR: 'blue' } }, async (sandbox) => {
    await sandbox.files.write('/home/user/note', 'kept');
    const server = await sandbox.commands.run('cd /tmp && echo up > index.html && python3 -m http.server 8123', {
      background: true,
      timeoutMs: 0,
    });
    await eventually('the server answers', async () => (await serviceFetch(sandbox, 8123, '/')).status === 200);
    const boot = await stdout(sandbox, 'cat /proc/sys/kernel/random/boot_id');
    await pause(sandbox);
    assert.equal(await stateOf(sandbox), 'paused');
    assert.equal(await sandbox.isRunning(), false);
    assert.equal((await serviceFetch(sandbox, 8123, '/')).status, 502);

    const again = await Sandbox.connect(sandbox.sandboxId);
    assert.equal(await stateOf(sandbox), 'running');
    assert.equal(await sandbox.isRunning(), true);
    assert.equal(await again.files.read('/home/user/note'), 'kept');
    assert.equal(await stdout(sandbox, 'echo $COLOUR'), 'blue');
    assert.equal(await stdout(again, 'cat /proc/sys/kernel/random/boot_id'), boot);
    assert.equal(await (await serviceFetch(again, 8123, '/')).text(), 'up\n');
    assert.ok((await again.commands.list()).some((process) => process.pid === server.pid));
    const skew = Math.abs(Number(await stdout(again, 'date +%s%3N')) - Date.now());
    assert.ok(skew < 1500, `clock is off by ${skew} ms`);
  });
});

test('a second pause says that it is paused already', async () => {
  await withSandbox({}, async (sandbox) => {
    await pause(sandbox);
    assert.equal((await post(`/sandboxes/${sandbox.sandboxId}/pause`, {})).status, 409);
    const list = await (await apiFetch('/v2/sandboxes?state=paused')).json();
    assert.ok(list.some((entry) => entry.sandboxID === sandbox.sandboxId && entry.state === 'paused'));
    assert.equal(await Sandbox.kill(sandbox.sandboxId), true);
    await assert.rejects(Sandbox.connect(sandbox.sandboxId), /not found/i);
  });
});

test('a command whose stream a pause ends can be taken up again', async () => {
  await withSandbox({}, async (sandbox) => {
    const command = await sandbox.commands.run('read line; echo got $line', {
      background: true,
      stdin: true,
      timeoutMs: 0,
    });
    const ended = assert.rejects(command.wait());
    await pause(sandbox);
    await ended;
    await Sandbox.connect(sandbox.sandboxId);
    const again = await sandbox.commands.connect(command.pid, { timeoutMs: 0 });
    await sandbox.commands.sendStdin(command.pid, 'on\n');
    assert.equal((await again.wait()).stdout, 'got on\n');
  });
});

// Field: a resumed sandbox comes back with an empty file system (agentuity/sdk#1161).
test('without its memory it boots anew from its disk', async () => {
  await withSandbox({ envs: { COLOUR: 'blue' } }, async (sandbox) => {
    await sandbox.files.write('/home/user/note', 'kept');
    const boot = await stdout(sandbox, 'cat /proc/sys/kernel/random/boot_id');
    await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 }).then((c) => c.disconnect());
    assert.equal((await post(`/sandboxes/${sandbox.sandboxId}/pause`, { memory: false })).status, 204);
    assert.equal(await sandbox.isRunning(), false);
    const again = await Sandbox.connect(sandbox.sandboxId);
    assert.equal(await again.files.read('/home/user/note'), 'kept');
    assert.notEqual(await stdout(again, 'cat /proc/sys/kernel/random/boot_id'), boot);
    assert.equal((await again.commands.list()).length, 0);
    assert.equal(await stdout(sandbox, 'echo $COLOUR'), 'blue');
  });
});

// e2b-dev/E2B#884, #1104: files must be there after every pause, by hand and by the deadline.
test('files survive the second and the automatic pause', async () => {
  await withCreated({ timeout: 2, autoPause: true }, async (sandbox) => {
    for (let round = 1; round <= 3; round += 1) {
      await sandbox.files.write(`/home/user/round${round}`, `${round}`);
      if (round === 1) await eventually('it is paused', async () => (await stateOf(sandbox)) === 'paused');
      else await pause(sandbox);
      await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 });
      for (let i = 1; i <= round; i += 1)
        assert.equal(await sandbox.files.read(`/home/user/round${i}`), `${i}`);
    }
  });
});

test('traffic wakes it once, whoever asks', async () => {
  await withCreated({ autoPause: true, autoResume: { enabled: true } }, async (sandbox) => {
    await sandbox.commands.run('cd /tmp && echo up > index.html && python3 -m http.server 8124', {
      background: true,
      timeoutMs: 0,
    });
    await eventually('the server answers', async () => (await serviceFetch(sandbox, 8124, '/')).status === 200);
    await pause(sandbox);
    assert.equal(await stateOf(sandbox), 'paused');
    const answers = await Promise.all([...Array(10)].map(() => serviceFetch(sandbox, 8124, '/')));
    for (const answer of answers) assert.equal(await answer.text(), 'up\n');
    const events = await (await apiFetch(`/v1/events?sandbox=${sandbox.sandboxId}`)).json();
    const resumed = (events.events ?? events).filter((event) => event.type === 'sandbox.resumed');
    assert.equal(resumed.length, 1);
    await pause(sandbox);
    assert.equal(await stdout(sandbox, 'echo awake'), 'awake');
  });
});

test('the client asks for automatic pause and resume', needs('autoResume'), async () => {
  const lifecycle = { onTimeout: 'pause', autoResume: true };
  await withSandbox({ timeoutMs: 2_000, lifecycle }, async (sandbox) => {
    await sandbox.files.write('/home/user/note', 'kept');
    await eventually('it is paused', async () => (await stateOf(sandbox)) === 'paused');
    assert.equal(await sandbox.files.read('/home/user/note'), 'kept');
  });
});
