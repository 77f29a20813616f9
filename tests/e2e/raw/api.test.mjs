// SPDX-License-Identifier: Apache-2.0
// Bad input to the API: each has its clear answer.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, template } from '../lib/target.mjs';
import { host, json, key, request, send } from '../lib/wire.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
});
after(() => sandbox?.kill());

// Each refusal is JSON with the same number in status and body, a message and a machine word.
function assertRefusal(answer, status, what) {
  assert.equal(answer.status, status, `${what}: ${answer.text.slice(0, 300)}`);
  assert.equal(answer.json?.code, status, `${what}: ${answer.body.slice(0, 300)}`);
  assert.ok(answer.json.message.length > 3, what);
}

test('malformed JSON', async () => {
  for (const body of [
    '',
    '{',
    '{"templateID":}',
    'null',
    '[]',
    '"x"',
    '{"templateID":"base"} trailing',
    '{"a":1,}',
    "{'a':1}",
    '{"templateID":"base","timeout":1e999}',
    '{"templateID":NaN}',
    '\u0000',
    '{"templateID":"\\ud800"}',
  ]) {
    assertRefusal(await send(json('POST', '/v2/sandboxes', body)), 400, JSON.stringify(body));
  }
});

test('deeply nested JSON', async () => {
  assertRefusal(await send(json('POST', '/v2/sandboxes', '['.repeat(20_000))), 400, 'open brackets');
  assertRefusal(
    await send(json('POST', '/v2/sandboxes', '{"a":'.repeat(5_000) + '1' + '}'.repeat(5_000))),
    400,
    'objects',
  );
});

test('wrong types name the field', async () => {
  const wrong = [
    [{ templateID: 5 }, 'templateID'],
    [{ templateID: ['base'] }, 'templateID'],
    [{ templateID: null }, 'templateID'],
    [{ templateID: template, timeout: '60' }, 'timeout'],
    [{ templateID: template, timeout: 1.5 }, 'timeout'],
    [{ templateID: template, timeout: true }, 'timeout'],
    [{ templateID: template, metadata: [] }, 'metadata'],
    [{ templateID: template, metadata: { a: 1 } }, 'metadata'],
    [{ templateID: template, envVars: { a: {} } }, 'envVars'],
    [{ templateID: template, secure: 'yes' }, 'secure'],
    [{ templateID: template, network: 'open' }, 'network'],
    [{ templateID: template, network: { allowOut: [5] } }, 'network'],
    [{ templateID: template, autoPause: 'x' }, 'autoPause'],
  ];
  for (const [body, field] of wrong) {
    const answer = await send(json('POST', '/sandboxes', body));
    assertRefusal(answer, 400, JSON.stringify(body));
    assert.ok(answer.json.message.includes(field), `${answer.json.message} should name ${field}`);
  }
});

test('values out of range', async () => {
  for (const timeout of [0, -1, 10 ** 12, -(2 ** 63), 2 ** 53]) {
    assertRefusal(
      await send(json('POST', '/sandboxes', { templateID: template, timeout })),
      400,
      `timeout ${timeout}`,
    );
  }
  assertRefusal(await send(json('POST', '/sandboxes', {})), 400, 'no template');
  const name = `bad\u0000name`;
  for (const envVars of [{ '': 'x' }, { 'A=B': 'x' }, { A: name }]) {
    assertRefusal(
      await send(json('POST', '/sandboxes', { templateID: template, timeout: 10, envVars })),
      400,
      JSON.stringify(envVars),
    );
  }
});

test('unknown fields are ignored', async () => {
  const answer = await send(
    json('POST', `/sandboxes/${sandbox.sandboxId}/timeout`, { timeout: 300, futureField: { a: [1] } }),
  );
  assert.equal(answer.status, 204, answer.text);
  assert.equal(answer.body, '');
});

test('invalid UTF-8', async () => {
  const bytes = Buffer.concat([
    Buffer.from('{"templateID":"ba'),
    Buffer.from([0xff, 0xfe, 0xc0, 0xaf]),
    Buffer.from('se"}'),
  ]);
  const head = request(
    'POST',
    '/v2/sandboxes',
    `Content-Type: application/json\r\nContent-Length: ${bytes.length}\r\n`,
  );
  assertRefusal(await send(Buffer.concat([Buffer.from(head), bytes])), 400, 'body');
  assertRefusal(await send(request('GET', '/v2/sandboxes?metadata=%ff%fe')), 400, 'query');
  const path = await send(request('GET', '/sandboxes/%ff%fe'));
  assert.ok([400, 404].includes(path.status), path.text);
});

test('huge bodies', async () => {
  const answer = await send(json('POST', '/v2/sandboxes', { templateID: 'x'.repeat(20 << 20) }), {
    limitMs: 20_000,
  });
  assertRefusal(answer, 413, '20 MiB');
  const claimed = await send(
    request(
      'POST',
      '/v2/sandboxes',
      'Content-Type: application/json\r\nContent-Length: 99999999999\r\n',
      '{',
    ),
  );
  assertRefusal(claimed, 413, 'claimed 100 GB');
});

test('huge chunked bodies', async () => {
  const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, 'x'), Buffer.from('\r\n')]);
  const pace = (socket) => {
    socket.write(
      request('POST', '/v2/sandboxes', 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n'),
    );
    for (let n = 0; n < 400; ++n) socket.write(chunk);
  };
  assertRefusal(await send('', { pace, limitMs: 20_000 }), 413, 'endless chunks');
});

test('huge heads', async () => {
  assert.equal(
    (await send(request('GET', '/v2/sandboxes', `X-Big: ${'x'.repeat(100_000)}\r\n`))).status,
    431,
    'one field',
  );
  assert.equal(
    (await send(request('GET', '/v2/sandboxes', 'X-N: 1\r\n'.repeat(10_000)))).status,
    431,
    'many fields',
  );
  const target = await send(request('GET', '/v2/sandboxes?' + 'a'.repeat(1_000_000)));
  assert.ok([414, 431].includes(target.status), `target: ${target.text.slice(0, 200)}`);
});

test('keys', async () => {
  const ask = (fields) => send(`GET /v2/sandboxes HTTP/1.1\r\n${host}Connection: close\r\n${fields}\r\n`);
  const good = key.slice(11).trim();
  for (const [what, fields] of Object.entries({
    none: '',
    empty: 'X-API-Key: \r\n',
    short: 'X-API-Key: e2b_\r\n',
    other: `X-API-Key: e2b_${'0'.repeat(40)}\r\n`,
    upper: `X-API-Key: ${good.toUpperCase()}\r\n`,
    'cut off': `X-API-Key: ${good.slice(0, -1)}\r\n`,
    longer: `X-API-Key: ${good}0\r\n`,
    basic: 'Authorization: Basic eDp5\r\n',
    twice: `X-API-Key: ${good}\r\nX-API-Key: e2b_${'0'.repeat(40)}\r\n`,
  })) {
    const answer = await ask(fields);
    assert.ok([400, 401].includes(answer.status), `${what}: ${answer.text}`);
    assert.equal(answer.json.code, answer.status, what);
    assert.ok(!answer.text.includes(good), `${what} repeats the key`);
  }
});

test('paths', async () => {
  const id = sandbox.sandboxId;
  const refused = [
    `/sandboxes/${id}/../${id}`,
    `/sandboxes/%2e%2e/sandboxes/${id}`,
    `/sandboxes/${id}%00`,
    `/sandboxes/${id}%2ftimeout`,
    `//sandboxes/${id}`,
    `/sandboxes//${id}`,
    `/sandboxes/${id.toUpperCase()}`,
    `/sandboxes/${id};a=b`,
    `/sandboxes/${id}/.`,
    '/sandboxes/../../etc/passwd',
    '/sandboxes/%2e%2e%2f%2e%2e%2fetc%2fpasswd',
    '/%zz',
    '/sandboxes/%',
    `/sandboxes\\${id}`,
  ];
  for (const path of refused) {
    const answer = await send(request('GET', path));
    assert.ok([400, 404].includes(answer.status), `${path}: ${answer.text.slice(0, 200)}`);
    assert.ok(!answer.text.includes('root:'), path);
  }
});

test('methods', async () => {
  for (const method of ['PATCH', 'PUT', 'FOO', 'get', 'TRACE', 'CONNECT']) {
    const answer = await send(request(method, '/v2/sandboxes'));
    assert.ok([400, 404, 405, 501].includes(answer.status), `${method}: ${answer.text.slice(0, 100)}`);
  }
});

test('unknown routes and ids look the same to everyone', async () => {
  const unknown = await send(request('GET', '/sandboxes/i00000000000000000000'));
  assertRefusal(unknown, 404, 'unknown id');
  assertRefusal(await send(request('GET', '/no/such/route')), 404, 'unknown route');
  assertRefusal(await send(request('DELETE', '/sandboxes/not-an-id')), 404, 'malformed id');
});

test('content types', async () => {
  const body = JSON.stringify({ timeout: 300 });
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
    const answer = await send(
      request(
        'POST',
        `/sandboxes/${sandbox.sandboxId}/timeout`,
        `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n`,
        body,
      ),
    );
    assert.ok([204, 400, 415].includes(answer.status), `${type}: ${answer.text.slice(0, 100)}`);
  }
});

test('the server still answers', async () => {
  assert.equal((await apiFetch('/v2/sandboxes')).status, 200);
  assert.equal(await sandbox.isRunning(), true);
});
