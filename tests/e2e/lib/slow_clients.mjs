// SPDX-License-Identifier: Apache-2.0
// Worker: many connections that each send a beginning and then a byte now and then. Says 'open' once all are connected.
import { parentPort, workerData } from 'node:worker_threads';
import { connect } from './wire.mjs';

const { bytes, count } = workerData;
const kPauseMs = 1_000;
const kAtOnce = 50;

const sockets = [];
while (sockets.length < count) {
  const group = Array.from({ length: Math.min(kAtOnce, count - sockets.length) }, connect);
  await Promise.all(
    group.map(
      (socket) =>
        new Promise((resolve, reject) => {
          socket.once('connect', resolve);
          socket.once('close', reject);
        }),
    ),
  );
  group.forEach((socket) => bytes && socket.write(bytes));
  sockets.push(...group);
}
parentPort.postMessage('open');
let next = 0;
if (bytes) setInterval(() => sockets[next++ % count].write('a'), kPauseMs / count);
else setInterval(() => {}, kPauseMs);
