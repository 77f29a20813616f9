// SPDX-License-Identifier: Apache-2.0
// A thousand slow clients must not hurt the good ones.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, apiFetch, template } from '../lib/target.mjs';
import { connect, host, key } from '../lib/wire.mjs';

const kSlow = 1_000;
let sandbox;
before(async () => { sandbox = await Sandbox.create(template, { timeoutMs: 300_000 }); });
after(() => sandbox?.kill());

async function timed(work, count) {
  const times = [];
  for (let n = 0; n < count; ++n) {
    const start = performance.now();
    await work();
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return { p50: times[Math.floor(count / 2)], p99: times[Math.floor(count * 0.99)] };
}

async function open(bytes) {
  const sockets = [];
  for (let n = 0; n < kSlow; ++n) {
    const socket = connect();
    sockets.push(socket);
    await new Promise((resolve, reject) => { socket.once('connect', resolve); socket.once('error', reject); });
    socket.write(typeof bytes === 'function' ? bytes(n) : bytes);
  }
  return sockets;
}

const api = async () => assert.equal((await apiFetch('/v2/sandboxes?limit=1')).status, 200);
const command = async () => assert.equal((await sandbox.commands.run('echo x')).stdout, 'x\n');

const kinds = {
  'half a head': `GET /v2/sandboxes HTTP/1.1\r\n${host}X-Slow: `,
  'nothing at all': '',
  'half a body': `POST /v2/sandboxes HTTP/1.1\r\n${host}${key}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"a`,
  'an endless chunk': `POST /v2/sandboxes HTTP/1.1\r\n${host}${key}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nab`,
};
for (const [what, bytes] of Object.entries(kinds)) {
  test(`${kSlow} clients that send ${what}`, { timeout: 120_000 }, async () => {
    await api();
    const before_ = { api: await timed(api, 100), command: await timed(command, 50) };
    const sockets = await open(bytes);
    try {
      const tick = setInterval(() => sockets.forEach((socket) => bytes && socket.write('a')), 500);
      const during = { api: await timed(api, 100), command: await timed(command, 50) };
      clearInterval(tick);
      const bound = (good) => Math.max(good.p99 * 2, good.p99 + 50);
      assert.ok(during.api.p99 <= bound(before_.api), JSON.stringify({ before_, during }));
      assert.ok(during.command.p99 <= bound(before_.command), JSON.stringify({ before_, during }));
    } finally {
      sockets.forEach((socket) => socket.destroy());
    }
  });
}

test('a slow head is cut off in time', { timeout: 60_000 }, async () => {
  const socket = connect();
  const started = Date.now();
  socket.write(`GET /health HTTP/1.1\r\n${host}X-Slow: `);
  const tick = setInterval(() => socket.write('a'), 300);
  let text = '';
  socket.on('data', (part) => { text += part; });
  await new Promise((resolve) => { socket.once('end', resolve); socket.once('close', resolve); });
  clearInterval(tick);
  const took = Date.now() - started;
  assert.ok(took < 30_000, `${took} ms`);
  assert.match(text, /^HTTP\/1\.1 408 /);
  socket.destroy();
});

test('clients that never read do not grow the server or stop others', { timeout: 60_000 }, async () => {
  await sandbox.commands.run('head -c 50000000 /dev/zero > /home/user/large');
  const fields = `E2b-Sandbox-Id: ${sandbox.sandboxId}\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: ${sandbox.envdAccessToken}\r\n`;
  const sockets = [];
  for (let n = 0; n < 100; ++n) {
    const socket = connect();
    socket.pause();
    socket.write(`GET /files?path=large HTTP/1.1\r\n${host}${fields}\r\n`);
    sockets.push(socket);
  }
  try {
    const during = await timed(command, 30);
    assert.ok(during.p99 < 2_000, JSON.stringify(during));
  } finally {
    sockets.forEach((socket) => socket.destroy());
  }
});
