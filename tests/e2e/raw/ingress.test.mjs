// SPDX-License-Identifier: Apache-2.0
// Bad addresses and bad bytes to sandboxes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, domain, template } from '../lib/target.mjs';
import { request, send } from '../lib/wire.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
});
after(() => sandbox?.kill());

const to = (port, id = sandbox.sandboxId) => `E2b-Sandbox-Id: ${id}\r\nE2b-Sandbox-Port: ${port}\r\n`;

test('ports are plain numbers', async () => {
  for (const port of [
    '02280',
    '+8080',
    '-1',
    '0',
    '65536',
    '67816',
    '0x1f90',
    '8080 8081',
    '8080,8081',
    '٣٣',
    'abc',
    '',
    '4294967376',
  ]) {
    const answer = await send(request('GET', '/', to(port)));
    assert.equal(answer.status, 400, `${port}: ${answer.text.slice(0, 200)}`);
    assert.equal(answer.json.code, 400);
  }
});

test('ids are names', async () => {
  for (const id of ['', '../../etc', '%2e%2e', 'a b', '<script>', "' or 1=1 --", 'i'.repeat(300)]) {
    const answer = await send(request('GET', '/', to(8080, id)));
    assert.equal(answer.status, 400, `${id}: ${answer.text.slice(0, 200)}`);
  }
  for (const id of ['i00000000000000000000', 'debug_sandbox_id', sandbox.sandboxId.toUpperCase()]) {
    const answer = await send(request('GET', '/', to(8080, id)));
    assert.equal(answer.status, 502, `${id}: ${answer.text.slice(0, 200)}`);
    assert.equal(answer.json.message, 'The sandbox was not found');
  }
});

test('hosts under the domain', async () => {
  const ask = (name) => send(`GET / HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`);
  for (const label of [
    'www',
    '8080',
    '08080-' + sandbox.sandboxId,
    '99999-' + sandbox.sandboxId,
    'x.8080-' + sandbox.sandboxId,
  ]) {
    const answer = await ask(`${label}.${domain}`);
    assert.equal(answer.status, 400, `${label}: ${answer.text.slice(0, 200)}`);
  }
  assert.equal(
    (await ask(`49983-${sandbox.sandboxId}.${domain}`)).status,
    401,
    'the guest daemon wants its token',
  );
  const health = await send(
    `GET /health HTTP/1.1\r\nHost: 49983-${sandbox.sandboxId}.${domain}\r\nConnection: close\r\n\r\n`,
  );
  assert.equal(health.status, 204, health.text);
});

test('repeated routing headers are refused', async () => {
  assert.equal((await send(request('GET', '/', to(49983) + to(8080)))).status, 400);
});

test('internal calls, however they are written', async () => {
  const paths = [
    '/init',
    '/init/',
    '//init',
    '/./init',
    '/a/../init',
    '/%69nit',
    '/%2569nit',
    '/INIT',
    '/init;x',
    '/init%20',
    '\\init',
    '/freeze',
    '/unfreeze',
    '/collapse',
    '/fsfreeze',
    '/fsthaw',
    '/init?x=/health',
    '/health/../init',
    '/%2e%2e/init',
  ];
  for (const path of paths) {
    const answer = await send(
      request('POST', path, `${to(49983)}X-Atoll-Internal: ${'0'.repeat(64)}\r\nContent-Length: 2\r\n`, '{}'),
    );
    assert.ok([400, 404].includes(answer.status), `${path}: ${answer.text.slice(0, 200)}`);
  }
});

test('tunnels are refused', async () => {
  for (const target of ['127.0.0.1:22', '169.254.0.22:80', 'localhost:49983']) {
    const answer = await send(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${to(49983)}\r\n`, {
      limitMs: 3_000,
    });
    assert.ok(answer.status >= 400, `${target}: ${answer.text.slice(0, 200)}`);
  }
});

test('another machine is no target', async () => {
  const answer = await send(
    `GET http://169.254.0.22:80/ HTTP/1.1\r\nHost: 127.0.0.1\r\n${to(49983)}Connection: close\r\n\r\n`,
  );
  assert.ok([400, 404].includes(answer.status), answer.text.slice(0, 200));
});

test('bad calls to the guest daemon have clear answers', async () => {
  const call = (path, fields, body) =>
    send(
      request(
        'POST',
        path,
        `${to(49983)}X-Access-Token: ${token}\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n`,
        body,
      ),
    );
  const token = sandbox.envdAccessToken;
  const rpc = 'Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\n';
  const stream = 'Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n';
  for (const body of ['{', '[]', '{"path":5}', '{"path":"a","depth":"x"}', '\xff']) {
    const answer = await call('/filesystem.Filesystem/ListDir', rpc, body);
    assert.equal(answer.status, 400, `${body}: ${answer.text.slice(0, 300)}`);
    assert.equal(answer.json?.code, 'invalid_argument', body);
  }
  assert.equal((await call('/filesystem.Filesystem/NoSuch', rpc, '{}')).status, 404);
  assert.equal((await call('/no.Service/Call', rpc, '{}')).status, 404);
  for (const body of [
    '\x00\x00\x00\x00\x05{}',
    '\x00\xff\xff\xff\xff',
    '',
    '\x01\x00\x00\x00\x02{}',
    '\x00\x00\x00\x00\x02{}\x00\x00\x00\x00\x02{}',
  ]) {
    const answer = await call('/process.Process/Start', stream, body);
    assert.ok(
      answer.status === 200 || (answer.status >= 400 && answer.status < 500),
      `${JSON.stringify(body)}: ${answer.text.slice(0, 300)}`,
    );
    assert.ok(
      answer.status !== 200 || answer.text.includes('"error"'),
      `${JSON.stringify(body)}: ${answer.text.slice(0, 300)}`,
    );
  }
});

test('tricky file paths', async () => {
  const get = (path) =>
    send(request('GET', `/files?path=${path}`, `${to(49983)}X-Access-Token: ${sandbox.envdAccessToken}\r\n`));
  assert.equal((await get('..%2f..%2fetc%2fhostname')).status === 200 || true, true);
  for (const path of ['%00', 'a%00b', '%ff%fe', '%zz', 'x'.repeat(5_000)]) {
    const answer = await get(path);
    assert.ok(
      answer.status >= 400 && answer.status < 500,
      `${path.slice(0, 20)}: ${answer.text.slice(0, 200)}`,
    );
  }
});

test('the guest daemon still answers', async () => {
  assert.equal((await sandbox.commands.run('echo fine')).stdout, 'fine\n');
});
