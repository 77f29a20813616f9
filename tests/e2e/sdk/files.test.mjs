// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Sandbox, e2b, has, needs, notIn, serviceFetch, template } from '../lib/target.mjs';

let sandbox, files;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
  files = sandbox.files;
});
after(() => sandbox?.kill());

const shell = async (command, options) => (await sandbox.commands.run(command, options)).stdout;
const notFound = (error) =>
  error instanceof e2b.NotFoundError || /not found|does not exist|no such/i.test(error.message);

test('write and read a text', async () => {
  const info = await files.write('hello.txt', 'hello');
  assert.equal(info.path, '/home/user/hello.txt');
  assert.equal(info.name, 'hello.txt');
  assert.equal(info.type, 'file');
  assert.equal(await files.read('hello.txt'), 'hello');
  assert.equal(await shell('cat ~/hello.txt; stat -c " %U %a" ~/hello.txt'), 'hello user 644\n');
});

test('write replaces', async () => {
  await files.write('again.txt', 'a long first content');
  await files.write('again.txt', 'short');
  assert.equal(await files.read('again.txt'), 'short');
});

test('every form of content', async () => {
  const bytes = randomBytes(100_000);
  await files.write('buffer', bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
  assert.deepEqual(Buffer.from(await files.read('buffer', { format: 'bytes' })), bytes);
  await files.write('blob', new Blob([bytes]));
  assert.deepEqual(Buffer.from(await (await files.read('blob', { format: 'blob' })).arrayBuffer()), bytes);
  await files.write('stream', new Blob([bytes]).stream());
  const parts = [];
  for await (const part of await files.read('stream', { format: 'stream' })) parts.push(part);
  assert.deepEqual(Buffer.concat(parts), bytes);
});

test('empty files', async () => {
  await files.write('empty', '');
  assert.equal(await files.read('empty'), '');
  assert.equal((await files.read('empty', { format: 'bytes' })).length, 0);
});

test('utf-8 in names and contents', async () => {
  const name = 'ordner é/日本 "quoted" % + & #.txt';
  await files.write(name, 'ünïcödé 🚀');
  assert.equal(await files.read(name), 'ünïcödé 🚀');
  assert.equal((await files.list('ordner é')).length, 1);
});

test('large files', { timeout: 120_000 }, async () => {
  const big = randomBytes(1 << 20);
  const whole = new Blob(Array.from({ length: 64 }, () => big));
  await files.write('big', whole, { requestTimeoutMs: 100_000 });
  assert.equal((await shell('stat -c %s ~/big')).trim(), String(64 << 20));
  const back = await files.read('big', { format: 'bytes', requestTimeoutMs: 100_000 });
  assert.equal(back.length, 64 << 20);
  assert.deepEqual(Buffer.from(back.subarray(63 << 20)), big);
  await files.remove('big');
});

test('gzip both ways', needs('useOctetStream'), async () => {
  const text = 'compress me '.repeat(50_000);
  await files.write('zipped', text, { gzip: true });
  assert.equal(await files.read('zipped', { gzip: true }), text);
  assert.equal((await shell('stat -c %s ~/zipped')).trim(), String(text.length));
});

test('octet-stream', needs('useOctetStream'), async () => {
  await files.write('octets', 'raw body', { useOctetStream: true });
  assert.equal(await files.read('octets'), 'raw body');
});

test('many files in one call', async () => {
  const entries = Array.from({ length: 60 }, (_, n) => ({
    path: `many/dir${n % 5}/f${n}.txt`,
    data: `content ${n}`,
  }));
  const infos = await files.write(entries);
  assert.equal(infos.length, 60);
  assert.deepEqual(
    infos.map((info) => info.path).sort(),
    entries.map((entry) => `/home/user/${entry.path}`).sort(),
  );
  assert.equal(await files.read('many/dir4/f59.txt'), 'content 59');
  assert.deepEqual(await files.write([]), []);
});

test('parents are made, as the user, also outside the home', async () => {
  await files.write('/home/user/a/b/c/d.txt', 'deep');
  assert.equal(await shell('stat -c "%U %a" ~/a/b/c ~/a/b/c/d.txt'), 'user 755\nuser 644\n');
});

test('as root', async () => {
  const info = await files.write('rooted.txt', 'r', { user: 'root' });
  assert.equal(info.path, '/root/rooted.txt');
  assert.equal(await files.read('/root/rooted.txt', { user: 'root' }), 'r');
});

test('reading what is not there or not a file', async () => {
  await assert.rejects(files.read('nothing-here'), notFound);
  await files.makeDir('a-directory');
  await assert.rejects(files.read('a-directory'), /directory/i);
  await assert.rejects(files.read('hello.txt/below'));
});

test('writing where it cannot be', async () => {
  await files.write('plain-file', 'x');
  await assert.rejects(files.write('plain-file/below', 'y'));
  await files.makeDir('some-dir');
  await assert.rejects(files.write('some-dir', 'y'));
});

test('list', async () => {
  await files.write('ls/file1.txt', '12345');
  await files.makeDir('ls/sub/inner');
  await files.write('ls/sub/deep.txt', '');
  const flat = await files.list('ls');
  assert.deepEqual(
    flat.map((entry) => [entry.name, entry.type]),
    [
      ['file1.txt', 'file'],
      ['sub', 'dir'],
    ],
  );
  assert.equal(flat[0].path, '/home/user/ls/file1.txt');
  assert.equal(flat[0].size, 5);
  assert.equal(flat[0].permissions, '-rw-r--r--');
  assert.equal(flat[0].mode, 0o644);
  assert.deepEqual([flat[0].owner, flat[0].group], ['user', 'user']);
  assert.ok(Math.abs(flat[0].modifiedTime - Date.now()) < 60_000);
  assert.equal(flat[1].permissions, 'drwxr-xr-x');
  assert.ok(flat[1].size > 0);
  const deep = await files.list('ls', { depth: 3 });
  assert.deepEqual(
    deep.map((entry) => entry.path.replace('/home/user/ls/', '')),
    ['file1.txt', 'sub', 'sub/deep.txt', 'sub/inner'],
  );
  await assert.rejects(files.list('no-such-dir'), notFound);
  await assert.rejects(files.list('ls/file1.txt'), /not a directory/i);
  assert.deepEqual(await files.list('ls/sub/inner'), []);
});

test('stat and links', async () => {
  await files.write('target.txt', 'abc');
  await shell('ln -sf target.txt ~/link; ln -sf nowhere ~/dangling; chmod 4750 ~/target.txt');
  const info = await files.getInfo('target.txt');
  assert.equal(info.size, 3);
  assert.equal(info.path, '/home/user/target.txt');
  const link = await files.getInfo('link');
  assert.equal(link.type, 'file');
  assert.equal(link.symlinkTarget, '/home/user/target.txt');
  assert.ok(link.permissions.startsWith('L'), link.permissions);
  await assert.rejects(files.getInfo('missing'), notFound);
});

test('exists', async () => {
  assert.equal(await files.exists('target.txt'), true);
  assert.equal(await files.exists('missing'), false);
  assert.equal(await files.exists('/home/user'), true);
});

test('makeDir', async () => {
  assert.equal(await files.makeDir('made/deep/er'), true);
  assert.equal(await files.makeDir('made/deep/er'), false);
  await files.write('made/file', 'x');
  await assert.rejects(files.makeDir('made/file'));
});

test('rename', async () => {
  await files.write('old-name', 'moved');
  const info = await files.rename('old-name', 'fresh/dir/new-name');
  assert.equal(info.path, '/home/user/fresh/dir/new-name');
  assert.equal(await files.exists('old-name'), false);
  assert.equal(await files.read('fresh/dir/new-name'), 'moved');
  await assert.rejects(files.rename('old-name', 'x'), notFound);
});

test('remove', async () => {
  await files.write('tree/a/b.txt', 'x');
  await files.remove('tree');
  assert.equal(await files.exists('tree'), false);
  await files.write('one', 'x');
  await files.remove('one');
  assert.equal(await files.exists('one'), false);
});

test('remove does not follow links', async () => {
  await shell('mkdir -p ~/kept && echo safe > ~/kept/file && mkdir -p ~/gone && ln -s ~/kept ~/gone/link');
  await files.remove('gone');
  assert.equal(await files.read('kept/file'), 'safe\n');
});

test('paths', async () => {
  await files.write('~/tilde.txt', 't');
  assert.equal(await files.read('/home/user/tilde.txt'), 't');
  await files.write('./dots/../dotted.txt', 'd');
  assert.equal(await files.read('/home/user/dotted.txt'), 'd');
});

test('metadata', { ...needs('X-Metadata-'), ...notIn('gvisor') }, async () => {
  const info = await files.write('with-meta.txt', 'x', { metadata: { Author: 'me', note: 'two words' } });
  assert.deepEqual(info.metadata, { author: 'me', note: 'two words' });
  assert.deepEqual((await files.getInfo('with-meta.txt')).metadata, { author: 'me', note: 'two words' });
  assert.deepEqual(
    (await files.list('/home/user')).find((entry) => entry.name === 'with-meta.txt').metadata,
    { author: 'me', note: 'two words' },
  );
  await files.write('with-meta.txt', 'y');
  assert.equal((await files.getInfo('with-meta.txt')).metadata, undefined);
  await files.write('meta-octets.txt', 'x', { metadata: { k: 'v' }, useOctetStream: true });
  assert.deepEqual((await files.getInfo('meta-octets.txt')).metadata, { k: 'v' });
});

test('files of the kernel are read to their end', async () => {
  assert.match(await files.read('/proc/self/status'), /^Name:/);
  assert.match(await files.read('/etc/os-release'), /Debian/);
});

test('endless and blocking files do not hang the daemon', { timeout: 60_000 }, async () => {
  await shell('mkfifo ~/pipe');
  await assert.rejects(files.read('pipe', { requestTimeoutMs: 10_000 }));
  await assert.rejects(files.write('pipe', 'x', { requestTimeoutMs: 10_000 }));
  await assert.rejects(files.read('/dev/zero', { requestTimeoutMs: 10_000 }));
  assert.equal(await files.read('hello.txt'), 'hello');
});

test('a link of the user does not lead to what only root may read', async () => {
  await shell('install -m 600 /dev/null /tmp/secret && echo s > /tmp/secret', { user: 'root' });
  await shell('ln -sfn /tmp/secret ~/steal');
  await assert.rejects(files.read('steal'));
  await assert.rejects(files.write('steal', 'x'));
  assert.equal(await files.read('/tmp/secret', { user: 'root' }), 's\n');
});

test('a full disk is told', { timeout: 120_000 }, async () => {
  await shell(
    'fallocate -l "$(df --output=avail -B1 . | tail -n 1)" filler 2>/dev/null;' +
      ' dd if=/dev/zero of=/home/user/filler2 bs=1M count=100000 2>/dev/null || true',
    { timeoutMs: 90_000 },
  );
  try {
    await assert.rejects(files.write('no-room', 'x'.repeat(1 << 20)), (error) => {
      assert.ok(error instanceof e2b.NotEnoughSpaceError, `${error.name}: ${error.message}`);
      return true;
    });
  } finally {
    await shell('rm -f /home/user/filler /home/user/filler2 /home/user/no-room');
  }
  await files.write('room-again', 'x');
});

test('ranges and heads over plain HTTP', needs('signature'), async () => {
  await files.write('ranged', '0123456789');
  const url = new URL(await sandbox.downloadUrl('ranged', { useSignatureExpiration: 10 }));
  const ask = (headers, method = 'GET') => fetch(url, { headers, method });
  const part = await ask({ Range: 'bytes=2-4' });
  assert.equal(part.status, 206);
  assert.equal(part.headers.get('content-range'), 'bytes 2-4/10');
  assert.equal(await part.text(), '234');
  assert.equal(await (await ask({ Range: 'bytes=-3' })).text(), '789');
  assert.equal((await ask({ Range: 'bytes=50-' })).status, 416);
  assert.ok(serviceFetch && has('downloadUrl'));
});

test('many transfers at once', { timeout: 60_000 }, async () => {
  const contents = Array.from({ length: 40 }, (_, n) => `${n} `.repeat(5000));
  await Promise.all(contents.map((text, n) => files.write(`par/${n}`, text)));
  const back = await Promise.all(contents.map((_, n) => files.read(`par/${n}`)));
  assert.deepEqual(back, contents);
});
