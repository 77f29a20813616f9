// SPDX-License-Identifier: Apache-2.0
// HTTP/2 over TLS: the API and sandboxes on one connection each, many streams, and its own kinds of bad input.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';
import tls from 'node:tls';
import { after, before, test } from 'node:test';
import {
  Sandbox,
  apiKey,
  baseUrl,
  domain,
  eventually,
  serviceFetch,
  template,
  within,
} from '../lib/target.mjs';

const skip = process.env.ATOLL_E2E_CA ? false : 'ATOLL_E2E_CA is not set';
const ca = skip ? '' : readFileSync(process.env.ATOLL_E2E_CA);
const { port } = new URL(baseUrl);
let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
  await sandbox.files.write(
    '/tmp/service.py',
    readFileSync(new URL('../lib/service.py', import.meta.url), 'utf8'),
  );
  await sandbox.commands.run('python3 /tmp/service.py 0.0.0.0 8080', { background: true, timeoutMs: 0 });
  await eventually('the service answers', async () => (await serviceFetch(sandbox, 8080)).ok, 15_000);
});
after(() => sandbox?.kill());

const socketFor = (name) =>
  tls.connect({ host: '127.0.0.1', port: Number(port), servername: name, ca, ALPNProtocols: ['h2'] });

function open(label) {
  const authority = label ? `${label}.${domain}` : `api.${domain}`;
  const session = http2.connect(`https://${authority}`, {
    createConnection: () => socketFor(authority.split(':')[0]),
  });
  session.on('error', () => {});
  return session;
}

function ask(session, headers, body) {
  return within(
    20_000,
    JSON.stringify(headers),
    new Promise((resolve, reject) => {
      const request = session.request(headers, { endStream: body === undefined });
      const parts = [];
      let status, fields;
      request.on('response', (got) => {
        status = got[':status'];
        fields = got;
      });
      request.on('data', (part) => parts.push(part));
      request.on('end', () => resolve({ status, headers: fields, body: Buffer.concat(parts) }));
      request.on('error', reject);
      if (body !== undefined) request.end(body);
    }),
  );
}

const key = { 'x-api-key': apiKey };

test('the API', { skip }, async () => {
  const session = open();
  assert.equal((await ask(session, { ':path': '/health' })).status, 204);
  const list = await ask(session, { ':path': '/v2/sandboxes', ...key });
  assert.equal(list.status, 200);
  assert.ok(Array.isArray(JSON.parse(list.body)));
  assert.equal((await ask(session, { ':path': '/v2/sandboxes' })).status, 401);
  assert.equal(
    (await ask(session, { ':path': '/v2/sandboxes', ':method': 'POST', ...key }, '{bad')).status,
    400,
  );
  session.close();
});

test('many streams of one connection', { skip, timeout: 60_000 }, async () => {
  const session = open(`8080-${sandbox.sandboxId}`);
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, n) => ask(session, { ':path': `/headers?n=${n}` })),
  );
  assert.deepEqual(
    answers.map((answer) => JSON.parse(answer.body).target),
    Array.from({ length: 200 }, (_, n) => `/headers?n=${n}`),
  );
  session.close();
});

test('bodies in both directions', { skip, timeout: 60_000 }, async () => {
  const session = open(`8080-${sandbox.sandboxId}`);
  const body = Buffer.alloc(5_000_000, 'z');
  const echoed = await ask(session, { ':path': '/echo', ':method': 'POST' }, body);
  assert.ok(echoed.body.equals(body));
  assert.equal((await ask(session, { ':path': '/bytes?n=30000000' })).body.length, 30_000_000);
  session.close();
});

test('a stream that is not read does not hold the others', { skip, timeout: 60_000 }, async () => {
  const session = open(`8080-${sandbox.sandboxId}`);
  const stuck = session.request({ ':path': '/bytes?n=100000000' });
  stuck.on('error', () => {});
  stuck.pause();
  for (let n = 0; n < 10; ++n) assert.equal((await ask(session, { ':path': `/headers?n=${n}` })).status, 200);
  stuck.close(http2.constants.NGHTTP2_CANCEL);
  session.close();
});

test('a cancelled stream is gone inside, too', { skip, timeout: 30_000 }, async () => {
  const session = open(`8080-${sandbox.sandboxId}`);
  const request = session.request({ ':path': '/endless?left=/tmp/left-h2' });
  request.on('error', () => {});
  await new Promise((resolve) => request.once('data', resolve));
  request.close(http2.constants.NGHTTP2_CANCEL);
  await eventually('the service notices', () => sandbox.files.exists('/tmp/left-h2'), 5_000);
  session.close();
});

test('kill resets the streams of that sandbox only', { skip, timeout: 30_000 }, async () => {
  const own = await Sandbox.create(template, { timeoutMs: 60_000 });
  const session = open(`49983-${own.sandboxId}`);
  const body = Buffer.from('\0\0\0\0\x14{"path":"/home/user"}', 'latin1');
  const watch = session.request({
    ':path': '/filesystem.Filesystem/WatchDir',
    ':method': 'POST',
    'content-type': 'application/connect+json',
    'connect-protocol-version': '1',
    'x-access-token': own.envdAccessToken,
  });
  body.writeUInt32BE(body.length - 5, 1);
  watch.end(body);
  await within(10_000, 'the first event', new Promise((resolve) => watch.once('data', resolve)));
  const broken = new Promise((resolve) => watch.on('close', () => resolve(watch.rstCode)));
  watch.on('error', () => {});
  await own.kill();
  assert.notEqual(await within(10_000, 'the reset', broken), 0);
  assert.equal((await ask(session, { ':path': '/health' })).status, 502);
  session.close();
});

test('forbidden fields are refused', { skip }, async () => {
  const session = open();
  await assert.rejects(
    ask(session, { ':path': '/v2/sandboxes', ...key, 'x-bad': 'a\u0001b' }).then((answer) => {
      if (answer.status >= 400) throw new Error('refused');
    }),
  );
  session.destroy();
});

function frame(type, flags, id, payload = Buffer.alloc(0)) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

// Sends the connection preface, empty SETTINGS and `frames`; gives the error code of the GOAWAY, or how it ended without.
function flood(frames) {
  return within(
    15_000,
    'the end of the connection',
    new Promise((resolve) => {
      const socket = socketFor(`api.${domain}`.split(':')[0]);
      let all = Buffer.alloc(0);
      const finish = (how) => {
        for (let rest = all; rest.length >= 9; rest = rest.subarray(9 + rest.readUIntBE(0, 3))) {
          if (rest[3] === 7) return resolve(rest.readUInt32BE(13));
        }
        return resolve(how);
      };
      socket.on('data', (part) => {
        all = Buffer.concat([all, part]);
      });
      socket.on('error', () => finish('reset'));
      socket.on('end', () => finish('end'));
      socket.on('secureConnect', () => {
        socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0)]));
        frames.forEach((each) => socket.write(each));
      });
    }),
  );
}

test('floods end the connection, not the server', { skip, timeout: 60_000 }, async () => {
  const authority = Buffer.from(`api.${domain}`);
  const fields = Buffer.concat([Buffer.from([0x82, 0x84, 0x87, 0x41, authority.length]), authority]); // GET / https
  const cancel = Buffer.from([0, 0, 0, 8]);
  const times = (count, make) => Array.from({ length: count }, (_, n) => make(n));
  const floods = {
    resets: times(5_000, (n) =>
      Buffer.concat([frame(1, 5, 2 * n + 1, fields), frame(3, 0, 2 * n + 1, cancel)]),
    ),
    pings: times(20_000, () => frame(6, 0, 0, Buffer.alloc(8))),
    settings: times(20_000, () => frame(4, 0, 0)),
    continuations: [frame(1, 1, 1, fields), ...times(10_000, () => frame(9, 0, 1))],
  };
  for (const [what, frames] of Object.entries(floods)) {
    const code = await flood(frames);
    assert.ok(code === 11 || code === 1 || code === 'reset', `${what}: ${code}`);
    const other = open();
    assert.equal((await ask(other, { ':path': '/health' })).status, 204, `after ${what}`);
    other.close();
  }
});

test('a huge head is refused', { skip }, async () => {
  const session = open();
  const outcome = await ask(session, { ':path': '/v2/sandboxes', ...key, 'x-big': 'x'.repeat(200_000) }).then(
    (answer) => answer.status,
    () => 'closed',
  );
  assert.ok(outcome === 431 || outcome === 'closed', `${outcome}`);
  session.destroy();
});
