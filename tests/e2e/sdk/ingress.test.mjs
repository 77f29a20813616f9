// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import {
  Sandbox,
  deferred,
  domain,
  eventually,
  mode,
  openWebSocket,
  serviceFetch,
  serviceHeaders,
  serviceUrl,
  template,
  within,
  withSandbox,
} from '../lib/target.mjs';

const service = readFileSync(new URL('../lib/service.py', import.meta.url), 'utf8');

async function serve(sandbox, address, port) {
  await sandbox.files.write('/tmp/service.py', service);
  await sandbox.commands.run(`python3 /tmp/service.py ${address} ${port}`, {
    background: true,
    timeoutMs: 0,
  });
  await eventually(`port ${port} answers`, async () => (await serviceFetch(sandbox, port)).ok, 15_000);
}

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
  await serve(sandbox, '0.0.0.0', 8080);
  await serve(sandbox, '127.0.0.1', 8081);
});
after(() => sandbox?.kill());

const ask = (path, init, port = 8080) => serviceFetch(sandbox, port, path, init);

test('getHost names the port and the sandbox', () => {
  if (mode === 'tls') assert.equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${domain}`);
  assert.ok(sandbox.getHost(3000).startsWith(`3000-${sandbox.sandboxId}.`));
});

test('a server on all addresses and one on loopback', async () => {
  for (const port of [8080, 8081]) {
    const answer = await ask('/', {}, port);
    assert.equal(answer.status, 200);
    assert.equal(await answer.text(), 'hello from the sandbox\n');
  }
});

test('what the service sees', async () => {
  for (const port of [8080, 8081]) {
    const seen = await (
      await ask(
        '/headers?a=%20b&c=d//e',
        { headers: { 'X-Mine': 'kept', 'X-Forwarded-For': '6.6.6.6', 'X-Atoll-Internal': 'x' } },
        port,
      )
    ).json();
    const all = seen.headers.map(([name]) => name);
    assert.equal(seen.target, '/headers?a=%20b&c=d//e');
    assert.ok(!all.some((name) => name.startsWith('e2b-') || name.startsWith('x-atoll')), all.join());
    const field = (name) => seen.headers.filter(([each]) => each === name).map(([, value]) => value);
    assert.deepEqual(field('x-mine'), ['kept']);
    assert.deepEqual(field('x-forwarded-for'), ['127.0.0.1']);
    assert.deepEqual(field('x-forwarded-proto'), [mode === 'tls' ? 'https' : 'http']);
    assert.equal(field('host')[0], new URL(serviceUrl(sandbox, port)).host);
  }
});

test('methods, bodies and statuses pass', async () => {
  const body = 'z'.repeat(300_000);
  assert.equal(await (await ask('/echo', { method: 'POST', body })).text(), body);
  assert.equal(await (await ask('/echo', { method: 'PUT', body }, 8081)).text(), body);
  assert.equal(await (await ask('/echo', { method: 'POST', body: '' })).text(), '');
  for (const code of [204, 304, 404, 418, 500, 503])
    assert.equal((await ask(`/status?code=${code}`)).status, code);
  const head = await ask('/bytes?n=1234', { method: 'HEAD' });
  assert.equal(head.headers.get('content-length'), '1234');
  assert.equal((await (await ask('/headers', { method: 'DELETE' })).json()).method, 'DELETE');
});

test('streamed uploads', async () => {
  const parts = Array.from({ length: 50 }, (_, n) => `part ${n} `.repeat(500));
  const stream = new ReadableStream({
    pull(controller) {
      const next = parts.shift();
      if (next === undefined) controller.close();
      else controller.enqueue(new TextEncoder().encode(next));
    },
  });
  const whole = parts.join('');
  assert.equal(await (await ask('/echo', { method: 'POST', body: stream, duplex: 'half' })).text(), whole);
});

test('large answers arrive whole', { timeout: 60_000 }, async () => {
  for (const port of [8080, 8081]) {
    const answer = await ask('/bytes?n=100000000', {}, port);
    let size = 0;
    for await (const part of answer.body) size += part.length;
    assert.equal(size, 100_000_000);
  }
});

test('events come as they are made', async () => {
  for (const port of [8080, 8081]) {
    const gate = `/tmp/gate-${port}`;
    const reader = (await ask(`/stream?gate=${gate}`, {}, port)).body.getReader();
    assert.equal(
      Buffer.from((await within(5_000, 'first event', reader.read())).value).toString(),
      'data: one\n\n',
    );
    await sandbox.files.write(gate, '');
    assert.equal(
      Buffer.from((await within(5_000, 'second event', reader.read())).value).toString(),
      'data: two\n\n',
    );
    assert.equal((await within(5_000, 'the end', reader.read())).done, true);
  }
});

test('a client that leaves is gone inside, too', async () => {
  for (const port of [8080, 8081]) {
    const stop = new AbortController();
    const answer = await ask(`/endless?left=/tmp/left-${port}`, { signal: stop.signal }, port);
    await answer.body.getReader().read();
    stop.abort();
    await eventually('the service notices', () => sandbox.files.exists(`/tmp/left-${port}`), 5_000);
  }
});

test('half an answer is an error', async () => {
  await assert.rejects(ask('/break').then((answer) => answer.text()));
});

test('cookies stay with their host', async () => {
  assert.equal((await ask('/cookie')).headers.get('set-cookie'), 'a=1; Path=/');
});

test('WebSocket', async () => {
  for (const port of [8080, 8081]) {
    const socket = openWebSocket(sandbox, port, '/ws');
    const opened = deferred();
    const messages = [];
    const waiting = [];
    socket.on('open', opened.resolve);
    socket.on('error', opened.reject);
    socket.on('message', (data) =>
      waiting.length > 0 ? waiting.shift()(String(data)) : messages.push(String(data)),
    );
    const next = () =>
      messages.length > 0 ? messages.shift() : new Promise((resolve) => waiting.push(resolve));
    await within(10_000, 'open', opened.promise);
    socket.send('hello');
    assert.equal(await within(5_000, 'echo', next()), 'HELLO');
    socket.send('b'.repeat(200_000));
    assert.equal(await within(10_000, 'large echo', next()), 'B'.repeat(200_000));
    const closed = new Promise((resolve) => socket.on('close', (code) => resolve(code)));
    socket.close(1000);
    assert.equal(await within(5_000, 'close', closed), 1000);
  }
});

test('many requests at once', { timeout: 60_000 }, async () => {
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) => ask(`/headers?n=${n}`, {}, n % 2 ? 8080 : 8081)),
  );
  const targets = await Promise.all(answers.map(async (answer) => (await answer.json()).target));
  assert.deepEqual(
    targets,
    Array.from({ length: 100 }, (_, n) => `/headers?n=${n}`),
  );
});

test('a closed port', async () => {
  const answer = await ask('/', {}, 9);
  assert.equal(answer.status, 502);
  assert.deepEqual(await answer.json(), {
    sandboxId: sandbox.sandboxId,
    message: 'The sandbox is running but port is not open',
    port: 9,
    code: 502,
  });
});

test('a port that opens late is waited for', async () => {
  const asked = ask('/', {}, 8090);
  await sandbox.commands.run('python3 /tmp/service.py 0.0.0.0 8090', { background: true, timeoutMs: 0 });
  const first = await asked;
  assert.ok([200, 502].includes(first.status));
  await eventually('it answers', async () => (await ask('/', {}, 8090)).status === 200, 10_000);
});

test('a browser gets a page', async () => {
  const answer = await ask('/', { headers: { Accept: 'text/html,application/xhtml+xml' } }, 9);
  assert.equal(answer.status, 502);
  assert.match(answer.headers.get('content-type'), /^text\/html/);
  assert.match(await answer.text(), /port is not open/);
});

test('internal calls of the guest daemon are not reachable', async () => {
  for (const path of ['/init', '//init', '/%69nit', '/freeze', '/x/..%2finit', '/INIT', '/fsfreeze']) {
    const answer = await ask(
      path,
      { method: 'POST', body: '{}', headers: { 'X-Atoll-Internal': '0'.repeat(64) } },
      49983,
    );
    assert.equal(answer.status, 404, path);
  }
});

test('a sandbox that is gone', async () => {
  const own = await Sandbox.create(template, { timeoutMs: 60_000 });
  await own.kill();
  for (const port of [8080, 49983]) {
    const answer = await serviceFetch(own, port, '/health');
    assert.equal(answer.status, 502);
    assert.deepEqual(await answer.json(), {
      sandboxId: own.sandboxId,
      message: 'The sandbox was not found',
      code: 502,
    });
  }
});

test('kill breaks open answers off', async () => {
  const own = await Sandbox.create(template, { timeoutMs: 60_000 });
  await serve(own, '0.0.0.0', 8080);
  const answer = await serviceFetch(own, 8080, '/endless?left=/tmp/x');
  const reading = answer.text();
  reading.catch(() => {});
  await own.kill();
  await within(5_000, 'the break', assert.rejects(reading));
});

test('kill breaks open WebSockets off', async () => {
  const own = await Sandbox.create(template, { timeoutMs: 60_000 });
  await serve(own, '127.0.0.1', 8080);
  const socket = openWebSocket(own, 8080, '/ws');
  await within(
    10_000,
    'open',
    new Promise((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', reject);
    }),
  );
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await own.kill();
  assert.equal(await within(5_000, 'the break', closed), 1006, 'not a clean close');
});

test('traffic tokens', async () => {
  await withSandbox({ network: { allowPublicTraffic: false } }, async (own) => {
    assert.ok(own.trafficAccessToken, 'create returns the token');
    await own.files.write('/tmp/service.py', service);
    await own.commands.run('python3 /tmp/service.py 0.0.0.0 8080', { background: true, timeoutMs: 0 });
    const with_ = (token) =>
      serviceFetch(own, 8080, '/headers', { headers: token ? { 'e2b-traffic-access-token': token } : {} });
    await eventually('the service answers', async () => (await with_(own.trafficAccessToken)).ok, 15_000);
    const missing = await with_();
    assert.equal(missing.status, 403);
    assert.equal((await missing.json()).code, 403);
    assert.equal((await with_('wrong')).status, 403);
    const seen = await (await with_(own.trafficAccessToken)).json();
    assert.ok(!seen.headers.some(([name]) => name === 'e2b-traffic-access-token'));
    assert.equal((await serviceFetch(own, 49983, '/health')).status, 204);
  });
});

test('the host can be masked', async () => {
  await withSandbox({ network: { maskRequestHost: 'localhost:${PORT}' } }, async (own) => {
    await serve(own, '0.0.0.0', 8080);
    const seen = await (await serviceFetch(own, 8080, '/headers')).json();
    assert.equal(seen.headers.find(([name]) => name === 'host')[1], 'localhost:8080');
  });
});

test(
  'a header cannot redirect a host that names a sandbox',
  { skip: mode !== 'tls' && 'needs names' },
  async () => {
    await withSandbox({}, async (other) => {
      const seen = await (
        await ask('/headers', {
          headers: {
            ...serviceHeaders(other, 8080),
            'E2b-Sandbox-Id': other.sandboxId,
            'E2b-Sandbox-Port': '8080',
          },
        })
      ).json();
      assert.equal(seen.target, '/headers');
    });
  },
);
