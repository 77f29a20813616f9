// SPDX-License-Identifier: Apache-2.0
// Duplicate and ambiguous framing. Nothing that could be read in two ways is passed on or answered twice.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, template } from '../lib/target.mjs';
import { host, key, send } from '../lib/wire.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
});
after(() => sandbox?.kill());

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n';
const cases = {
  'two lengths': ['Content-Length: 5\r\nContent-Length: 6\r\n', 'aaaaa'],
  'two equal lengths': ['Content-Length: 5\r\nContent-Length: 5\r\n', 'aaaaa'],
  'a list of lengths': ['Content-Length: 5, 5\r\n', 'aaaaa'],
  'length and chunked': [`Content-Length: 4\r\nTransfer-Encoding: chunked\r\n`, `0\r\n\r\n${smuggled}`],
  'chunked and length': [`Transfer-Encoding: chunked\r\nContent-Length: 4\r\n`, `0\r\n\r\n${smuggled}`],
  'two transfer encodings': [
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n',
    `0\r\n\r\n${smuggled}`,
  ],
  'an unknown encoding': ['Transfer-Encoding: xchunked\r\n', `0\r\n\r\n${smuggled}`],
  'chunked not last': ['Transfer-Encoding: chunked, identity\r\n', `0\r\n\r\n${smuggled}`],
  'gzip, chunked': ['Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'],
  'chunked in quotes': ['Transfer-Encoding: "chunked"\r\n', `0\r\n\r\n${smuggled}`],
  'chunked with a vertical tab': ['Transfer-Encoding: \x0bchunked\r\n', `0\r\n\r\n${smuggled}`],
  'space before the colon': ['Transfer-Encoding : chunked\r\n', `0\r\n\r\n${smuggled}`],
  'a folded field': ['X-Folded: a\r\n b\r\n', ''],
  'a folded encoding': ['Transfer-Encoding:\r\n chunked\r\n', `0\r\n\r\n${smuggled}`],
  'a signed length': ['Content-Length: +5\r\n', 'aaaaa'],
  'a negative length': ['Content-Length: -5\r\n', 'aaaaa'],
  'a hexadecimal length': ['Content-Length: 0x5\r\n', 'aaaaa'],
  'an overflowing length': ['Content-Length: 18446744073709551621\r\n', 'aaaaa'],
  'an empty length': ['Content-Length: \r\n', ''],
  'a bare carriage return in a value': ['X-A: b\rTransfer-Encoding: chunked\r\n', ''],
  'a NUL in a value': ['X-A: b\0c\r\n', ''],
  'a field without a colon': ['NoColon\r\n', ''],
  'a field without a name': [': value\r\n', ''],
  'a name with a space': ['Bad Name: x\r\n', ''],
  'a second Host': ['Host: other\r\n', ''],
};

const targets = {
  api: ['POST /v2/sandboxes', ''],
  guest: [
    'POST /process.Process/List',
    () => `E2b-Sandbox-Id: ${sandbox.sandboxId}\r\nE2b-Sandbox-Port: 49983\r\n`,
  ],
  service: ['POST /', () => `E2b-Sandbox-Id: ${sandbox.sandboxId}\r\nE2b-Sandbox-Port: 8080\r\n`],
};

for (const [target, [line, routing]] of Object.entries(targets)) {
  for (const [what, [fields, body]] of Object.entries(cases)) {
    test(`${target}: ${what}`, async () => {
      const route = typeof routing === 'function' ? routing() : routing;
      const answer = await send(`${line} HTTP/1.1\r\n${host}${key}${route}${fields}\r\n${body}`, {
        limitMs: 4_000,
      });
      assert.ok([400, 501].includes(answer.status), `${what}: ${answer.how} ${answer.text.slice(0, 200)}`);
      assert.deepEqual(answer.statuses.length, 1, 'one answer only');
      assert.notEqual(answer.how, 'timeout', 'the connection is closed');
    });
  }
}

const chunks = {
  'no digits': 'x\r\nabc\r\n0\r\n\r\n',
  'an overflowing size': '10000000000000001\r\na\r\n0\r\n\r\n',
  'a signed size': '+3\r\nabc\r\n0\r\n\r\n',
  'a size with a prefix': '0x3\r\nabc\r\n0\r\n\r\n',
  'no end after the data': '3\r\nabcX0\r\n\r\n',
  'a bare line feed': '3\nabc\n0\n\n',
  'an endless extension': `3;${'e'.repeat(200_000)}\r\nabc\r\n0\r\n\r\n`,
};
for (const [what, body] of Object.entries(chunks)) {
  test(`chunks: ${what}`, async () => {
    const answer = await send(
      `POST /v2/sandboxes HTTP/1.1\r\n${host}${key}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`,
    );
    assert.ok([400, 413].includes(answer.status), `${answer.how} ${answer.text.slice(0, 200)}`);
    assert.equal(answer.statuses.length, 1);
  });
}

test('request lines', async () => {
  for (const line of [
    'GET  /v2/sandboxes HTTP/1.1',
    'GET /v2/sandboxes',
    'GET /v2/sandboxes HTTP/1.2',
    'GET /v2/sandboxes HTTP/3.0',
    'GET /v2 sandboxes HTTP/1.1',
    'GET\t/v2/sandboxes HTTP/1.1',
    'GET /v2/\x01sandboxes HTTP/1.1',
    'GET v2/sandboxes HTTP/1.1',
    'GET /v2/sandböxes HTTP/1.1',
    ' GET /v2/sandboxes HTTP/1.1',
    'GET /v2/sandboxes#frag HTTP/1.1',
    'PRI * HTTP/2.0',
  ]) {
    const answer = await send(Buffer.from(`${line}\r\n${host}${key}\r\n`, 'latin1'), { limitMs: 3_000 });
    const refused =
      answer.status === undefined ? answer.how !== 'timeout' : [400, 404, 405, 505].includes(answer.status);
    assert.ok(refused, `${JSON.stringify(line)}: ${answer.how} ${answer.text.slice(0, 100)}`);
  }
});

test('no Host, or a strange one', async () => {
  assert.equal((await send('GET /health HTTP/1.1\r\n\r\n')).status, 400);
  for (const name of ['a b', 'a/b', 'a@b', 'x\x7fy']) {
    assert.equal(
      (await send(Buffer.from(`GET /v2/sandboxes HTTP/1.1\r\nHost: ${name}\r\n${key}\r\n`, 'latin1'))).status,
      400,
      name,
    );
  }
});

test('pipelined requests are answered in order', async () => {
  const one = `GET /health HTTP/1.1\r\n${host}\r\n`;
  const last = `GET /no/such/route HTTP/1.1\r\n${host}${key}Connection: close\r\n\r\n`;
  const answer = await send(one.repeat(1_000) + last, { limitMs: 20_000 });
  assert.equal(answer.statuses.length, 1_001);
  assert.ok(answer.statuses.slice(0, -1).every((status) => status === 204));
  assert.equal(answer.statuses.at(-1), 404);
});

test('garbage', async () => {
  for (const bytes of [
    Buffer.alloc(1000, 0),
    Buffer.from('\x16\x03\x01\x00\x05garbage-not-tls', 'latin1'),
    Buffer.from('SSH-2.0-x\r\n'),
    Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + 'garbage'.repeat(100)),
    Buffer.from('\r\n'.repeat(5_000)),
  ]) {
    const answer = await send(bytes, { limitMs: 4_000, end: true });
    assert.notEqual(answer.how, 'timeout', JSON.stringify(bytes.subarray(0, 20).toString('latin1')));
    assert.ok(answer.status === undefined || answer.status >= 400);
  }
});
