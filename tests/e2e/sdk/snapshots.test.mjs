// SPDX-License-Identifier: Apache-2.0
// Snapshots and forks: copies of the disk, and sandboxes that start from them.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, needs, template, withSandbox } from '../lib/target.mjs';

const kChildren = 10;
const run = async (sandbox, command) => (await sandbox.commands.run(command)).stdout.trim();
const name = () => `e2e-${process.pid}-${Math.random().toString(36).slice(2, 10)}`;

let parent;
before(async () => {
  parent = await Sandbox.create(template, { timeoutMs: 240_000, metadata: { job: '7' }, envs: { COLOUR: 'blue' } });
  await parent.files.write('kept.txt', 'kept');
});
after(() => parent?.kill());

async function withSnapshot(options, work) {
  const snapshot = await parent.createSnapshot(options);
  try {
    return await work(snapshot);
  } finally {
    await Sandbox.deleteSnapshot(snapshot.snapshotId).catch(() => {});
  }
}

async function fromSnapshot(id, work) {
  const sandbox = await Sandbox.create(id, { timeoutMs: 120_000 });
  try {
    return await work(sandbox);
  } finally {
    await sandbox.kill();
  }
}

// Field: what ran is lost although a good snapshot exists (agent-substrate/substrate#1526).
test('a snapshot starts any number of sandboxes, also when its own is gone', needs('createSnapshot'), async () => {
  await withSandbox({}, async (source) => {
    await source.files.write('state.txt', 'before');
    const snapshot = await source.createSnapshot();
    await source.files.write('state.txt', 'after');
    assert.equal(await source.files.read('state.txt'), 'after');
    await source.kill();
    try {
      for (let i = 0; i < 2; ++i) {
        await fromSnapshot(snapshot.snapshotId, async (child) => {
          assert.equal(await child.files.read('state.txt'), 'before');
          await child.files.write('state.txt', 'child');
        });
      }
    } finally {
      assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true);
    }
    assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false);
    await assert.rejects(Sandbox.create(snapshot.snapshotId, { timeoutMs: 10_000 }));
  });
});

test('a named snapshot is found by its name', needs('createSnapshot', 'names'), async () => {
  const wanted = name();
  await withSnapshot({ name: wanted }, async (snapshot) => {
    assert.ok(snapshot.names.some((shown) => shown.includes(wanted)), JSON.stringify(snapshot));
    await fromSnapshot(wanted, async (child) => assert.equal(await child.files.read('kept.txt'), 'kept'));
  });
});

test('snapshots are listed by their name', needs('createSnapshot', 'this.name = opts'), async () => {
  const wanted = name();
  await withSnapshot({ name: wanted }, async (snapshot) => {
    const found = await Sandbox.listSnapshots({ name: wanted }).nextItems();
    assert.deepEqual(
      found.map((item) => item.snapshotId),
      [snapshot.snapshotId],
    );
    assert.deepEqual(await Sandbox.listSnapshots({ name: `${wanted}-none` }).nextItems(), []);
  });
});

test('snapshots of a sandbox are listed in pages', needs('createSnapshot'), async () => {
  await withSandbox({}, async (source) => {
    const made = [];
    try {
      for (let i = 0; i < 3; ++i) made.push((await source.createSnapshot()).snapshotId);
      const listed = [];
      const pages = source.listSnapshots({ limit: 2 });
      while (pages.hasNext) listed.push(...(await pages.nextItems()).map((item) => item.snapshotId));
      assert.deepEqual(listed.sort(), [...made].sort());
    } finally {
      for (const id of made) await Sandbox.deleteSnapshot(id);
    }
  });
});

test('ten children have the files and nothing that names or opens the parent', needs('fork('), async () => {
  const children = await parent.fork({ count: kChildren, timeoutMs: 120_000 });
  try {
    assert.equal(children.length, kChildren);
    for (const child of children) assert.ok(child instanceof Sandbox, String(child));
    await shareNothing([parent, ...children]);
    for (const child of children) {
      assert.equal(await child.files.read('kept.txt'), 'kept');
      assert.equal(await run(child, 'echo $COLOUR'), 'blue', 'the environment of its parent');
      assert.deepEqual((await child.getInfo()).metadata, { job: '7' });
    }
    await children[0].files.write('kept.txt', 'mine');
    assert.equal(await parent.files.read('kept.txt'), 'kept');
    assert.equal(await children[1].files.read('kept.txt'), 'kept');
  } finally {
    await Promise.all(children.map((child) => child instanceof Sandbox && child.kill()));
  }
});

test('two restores of a snapshot share nothing that names or opens one', needs('createSnapshot'), async () => {
  await withSnapshot({}, async (snapshot) => {
    await fromSnapshot(snapshot.snapshotId, async (first) => {
      await fromSnapshot(snapshot.snapshotId, async (second) => {
        await shareNothing([parent, first, second]);
        for (const one of [first, second]) assert.equal(await one.files.read('kept.txt'), 'kept');
      });
    });
  });
});

test('a killed sandbox cannot be forked', needs('fork('), async () => {
  await withSandbox({}, async (sandbox) => {
    await sandbox.kill();
    await assert.rejects(sandbox.fork(), /not found|NotFound/i);
  });
});

// Field: taking a snapshot destroys the box (ColeMurray/background-agents#1827).
test('the sandbox goes on: processes, streams and files', needs('createSnapshot'), async () => {
  let output = '';
  const command = await parent.commands.run('for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done', {
    background: true,
    onStdout: (data) => (output += data),
  });
  await withSnapshot({}, async () => {});
  assert.equal((await command.wait()).exitCode, 0);
  assert.equal(output, '1\n2\n3\n4\n5\n6\n7\n8\n');
});

// Field: a snapshot fails when the box is idle at that moment (upstash/box#110).
test('a paused sandbox is copied and stays paused', needs('createSnapshot'), async () => {
  await withSandbox({}, async (source) => {
    await source.files.write('state.txt', 'asleep');
    await (source.pause ?? source.betaPause).call(source);
    const snapshot = await source.createSnapshot();
    try {
      assert.equal((await details(source)).state, 'paused');
      await fromSnapshot(snapshot.snapshotId, async (child) =>
        assert.equal(await child.files.read('state.txt'), 'asleep'),
      );
    } finally {
      await Sandbox.deleteSnapshot(snapshot.snapshotId);
    }
  });
});

// Field: forked children keep the parent's entropy and session identity (kvcache-ai/AgentENV#33); uniqueness after a
// restore (hyperlight-dev/hyperlight#1745); the clock is stale after one (deeplethe/forkd#288,
// superradcompany/microsandbox#969).
async function shareNothing(all) {
  const differ = async (what, read) => {
    const values = await Promise.all(all.map(read));
    for (const value of values) assert.ok(value, `${what} is empty`);
    assert.equal(new Set(values).size, all.length, `${what}: ${values}`);
  };
  await differ('id', (sandbox) => sandbox.sandboxId);
  await differ('host name', (sandbox) => run(sandbox, 'hostname'));
  await differ('/etc/hostname', (sandbox) => run(sandbox, 'cat /etc/hostname'));
  await differ('machine id', (sandbox) => run(sandbox, 'cat /etc/machine-id'));
  await differ('boot id', (sandbox) => run(sandbox, 'cat /proc/sys/kernel/random/boot_id'));
  await differ('random bytes', (sandbox) => run(sandbox, 'head -c 16 /dev/urandom | od -An -tx1'));
  await differ('random of a program', (sandbox) => run(sandbox, 'python3 -c "import random; print(random.random())"'));
  await differ('uuid', (sandbox) => run(sandbox, 'python3 -c "import uuid; print(uuid.uuid4())"'));
  await differ('token', async (sandbox) => (await details(sandbox)).envdAccessToken);
  for (const sandbox of all) {
    const asked = Date.now();
    const told = Number(await run(sandbox, 'date +%s%3N'));
    const answered = Date.now();
    assert.ok(asked - 500 <= told && told <= answered + 500, `its clock says ${told}, it was ${asked} to ${answered}`);
  }
}

async function details(sandbox) {
  return (await apiFetch(`/sandboxes/${sandbox.sandboxId}`)).json();
}
