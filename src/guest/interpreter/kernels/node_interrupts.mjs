// SPDX-License-Identifier: Apache-2.0
// The thread of node_kernel.mjs that takes interrupts, because the main thread may be busy with code. It asks the main
// thread to end the call that is named, and throws it out of the code when it does not answer.
import fs from 'node:fs';
import inspector from 'node:inspector';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

const kGraceMs = 30; // for a main thread that waits for something
const kLookMs = 2;

// [0]: the call whose code the main thread may be in; 0: none, or it runs the kernel's own; below 0: it is being thrown
// out of that code.
// [1]: the last call that has ended.
const state = new Int32Array(workerData.state);
const ended = (call) => Atomics.load(state, 1) >= call;

async function throwOut(call) {
  const session = new inspector.Session();
  session.connectToMainThread();
  // The answer comes when it has happened.
  await new Promise((resolve) => session.post('Runtime.terminateExecution', resolve));
  session.disconnect();
  Atomics.store(state, 0, call);
  parentPort.postMessage(call);
}

async function grace(call) {
  for (const limit = performance.now() + kGraceMs; !ended(call) && performance.now() < limit; ) await sleep(kLookMs);
}

async function interrupt(call) {
  if (ended(call)) return;
  parentPort.postMessage(call);
  await grace(call);
  for (; !ended(call); await sleep(kLookMs)) {
    // From now on the main thread does not go back from the code to the kernel.
    if (Atomics.compareExchange(state, 0, call, -call) !== call) continue;
    await throwOut(call);
    await grace(call);
  }
}

let text = '';
let chain = Promise.resolve();
const pipe = fs.openSync(workerData.interrupts, fs.constants.O_RDWR | fs.constants.O_NONBLOCK);
new net.Socket({ fd: pipe, readable: true, writable: false }).on('data', (block) => {
  const lines = (text + block.toString('latin1')).split('\n');
  text = lines.pop();
  for (const call of new Set(lines)) chain = chain.then(() => interrupt(Number(call)));
});
