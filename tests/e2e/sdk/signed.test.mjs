// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, template, withSandbox } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000, secure: true });
  await sandbox.files.write('signed file.txt', 'signed content');
});
after(() => sandbox?.kill());

test('a download link works for anyone', async () => {
  const answer = await fetch(await sandbox.downloadUrl('signed file.txt'));
  assert.equal(answer.status, 200);
  assert.equal(await answer.text(), 'signed content');
});

test('a download link with a future expiration and a user', async () => {
  const url = await sandbox.downloadUrl('signed file.txt', { useSignatureExpiration: 60, user: 'user' });
  const answer = await fetch(url);
  assert.equal(answer.status, 200);
  assert.equal(await answer.text(), 'signed content');
});

test('an expired link', async () => {
  const url = await sandbox.downloadUrl('signed file.txt', { useSignatureExpiration: -120 });
  const answer = await fetch(url);
  assert.equal(answer.status, 401);
  assert.equal(await answer.text(), '{"code":401,"message":"signature is already expired"}');
});

test('a changed link', async () => {
  const url = new URL(await sandbox.downloadUrl('signed file.txt', { useSignatureExpiration: 60 }));
  for (const change of [
    ['path', '/etc/shadow'],
    ['signature_expiration', '9999999999'],
    ['signature', 'v1_AAAA'],
  ]) {
    const other = new URL(url);
    other.searchParams.set(...change);
    const answer = await fetch(other);
    assert.equal(answer.status, 401, change[0]);
    assert.match((await answer.json()).message, /invalid signature/);
  }
});

test('a download link does not upload', async () => {
  const form = new FormData();
  form.append('file', new Blob(['x']), 'signed file.txt');
  const answer = await fetch(await sandbox.downloadUrl('signed file.txt'), { method: 'POST', body: form });
  assert.equal(answer.status, 401);
});

test('an upload link', async () => {
  const form = new FormData();
  form.append('file', 'uploaded');
  const answer = await fetch(await sandbox.uploadUrl('up.txt', { useSignatureExpiration: 60 }), {
    method: 'POST',
    body: form,
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  assert.equal(await sandbox.files.read('up.txt'), 'uploaded');
});

test('an upload link without a path takes the name of the part', async () => {
  const form = new FormData();
  form.append('file', new Blob(['named']), '/home/user/by-name.txt');
  const answer = await fetch(await sandbox.uploadUrl(), { method: 'POST', body: form });
  assert.equal(answer.status, 200, await answer.clone().text());
  assert.equal(await sandbox.files.read('by-name.txt'), 'named');
});

test('links of one sandbox do not open another', async () => {
  await withSandbox({}, async (other) => {
    await other.files.write('mine.txt', 'other');
    const url = new URL(await other.downloadUrl('mine.txt'));
    assert.equal(await (await fetch(url)).text(), 'other');
    const stolen = new URL(await sandbox.downloadUrl('mine.txt'));
    url.searchParams.set('signature', stolen.searchParams.get('signature'));
    const answer = await fetch(url);
    assert.notEqual(await answer.text(), 'other');
  });
});

test('a dead sandbox has no links', async () => {
  const own = await Sandbox.create(template, { timeoutMs: 60_000 });
  await own.files.write('a', 'x');
  const url = await own.downloadUrl('a');
  await own.kill();
  const answer = await fetch(url);
  assert.ok(answer.status === 502 || answer.status === 401, `${answer.status}`);
});
