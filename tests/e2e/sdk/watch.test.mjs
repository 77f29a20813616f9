// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, eventually, needs, template } from '../lib/target.mjs';

let sandbox, files;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
  files = sandbox.files;
});
after(() => sandbox?.kill());

async function watch(dir, options = {}) {
  await files.makeDir(dir);
  const events = [];
  const handle = await files.watchDir(
    dir,
    (event) => {
      events.push(event);
    },
    { timeoutMs: 0, ...options },
  );
  events.saw = (type, name) =>
    eventually(
      `${type} of ${name} in ${JSON.stringify(events)}`,
      () => events.find((event) => event.type === type && event.name === name),
      5_000,
    );
  events.stop = () => handle.stop();
  return events;
}

test('create, write, rename, chmod, remove', async () => {
  const events = await watch('w1');
  await files.write('w1/new.txt', 'x');
  await events.saw('create', 'new.txt');
  await events.saw('write', 'new.txt');
  await sandbox.commands.run('chmod 600 ~/w1/new.txt');
  await events.saw('chmod', 'new.txt');
  await files.rename('w1/new.txt', 'w1/other.txt');
  await events.saw('rename', 'new.txt');
  await events.saw('create', 'other.txt');
  await files.remove('w1/other.txt');
  await events.saw('remove', 'other.txt');
  await events.stop();
});

test('nothing comes after stop', async () => {
  const events = await watch('w2');
  await files.write('w2/a', 'x');
  await events.saw('create', 'a');
  await events.stop();
  const count = events.length;
  await files.write('w2/b', 'x');
  await sandbox.commands.run('true');
  assert.equal(events.length, count);
});

test('not below without recursive', async () => {
  await files.makeDir('w3/sub');
  const events = await watch('w3');
  await files.write('w3/sub/deep', 'x');
  await files.write('w3/top', 'x');
  await events.saw('create', 'top');
  assert.ok(!events.some((event) => event.name.includes('deep')));
  await events.stop();
});

test('recursive, also in directories made later', async () => {
  await files.makeDir('w4/before');
  const events = await watch('w4', { recursive: true });
  await files.write('w4/before/a.txt', 'x');
  await events.saw('create', 'before/a.txt');
  await files.makeDir('w4/later');
  await events.saw('create', 'later');
  await files.write('w4/later/b.txt', 'x');
  await events.saw('write', 'later/b.txt');
  await sandbox.commands.run('mkdir -p ~/w4/x/y/z && echo hi > ~/w4/x/y/z/f');
  await events.saw('create', 'x');
  await eventually(
    'a later write in the deepest directory is seen',
    async () => {
      await sandbox.commands.run('echo more >> ~/w4/x/y/z/f');
      return events.some((event) => event.type === 'write' && event.name === 'x/y/z/f');
    },
    5_000,
  );
  await events.stop();
});

test('entries come with the events', needs('includeEntry'), async () => {
  const events = await watch('w5', { includeEntry: true });
  await files.write('w5/e.txt', '12345');
  const event = await events.saw('write', 'e.txt');
  assert.equal(event.entry?.path, '/home/user/w5/e.txt');
  assert.equal(event.entry?.type, 'file');
  await files.remove('w5/e.txt');
  await events.saw('remove', 'e.txt');
  await events.stop();
});

test('what cannot be watched is refused', async () => {
  await assert.rejects(
    files.watchDir('no-such-dir', () => {}),
    /not found|does not exist|no such/i,
  );
  await files.write('a-file', 'x');
  await assert.rejects(
    files.watchDir('a-file', () => {}),
    /not a directory/i,
  );
});

test('many watchers at once', async () => {
  const all = await Promise.all(Array.from({ length: 10 }, (_, n) => watch(`wm/${n}`)));
  await Promise.all(all.map((_, n) => files.write(`wm/${n}/f`, 'x')));
  await Promise.all(all.map((events) => events.saw('create', 'f')));
  await Promise.all(all.map((events) => events.stop()));
});

test('the end of the sandbox ends the watch', async () => {
  const own = await Sandbox.create(template, { timeoutMs: 60_000 });
  let ended = false;
  await own.files.watchDir('/home/user', () => {}, {
    timeoutMs: 0,
    onExit: () => {
      ended = true;
    },
  });
  await own.kill();
  await eventually('onExit', () => ended, 10_000);
});
