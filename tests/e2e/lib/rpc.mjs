// SPDX-License-Identifier: Apache-2.0
// The guest daemon's RPC by hand, for what no published client calls.
import { serviceHeaders, serviceUrl } from './target.mjs';

const kGuestPort = 49983;

function headersOf(sandbox, more) {
  return {
    ...serviceHeaders(sandbox, kGuestPort),
    'connect-protocol-version': '1',
    'x-access-token': sandbox.envdAccessToken ?? '',
    ...more,
  };
}

// One call, one answer: {status, body}.
export async function unary(sandbox, method, message) {
  const answer = await fetch(serviceUrl(sandbox, kGuestPort, `/${method}`), {
    method: 'POST',
    body: JSON.stringify(message),
    headers: headersOf(sandbox, { 'content-type': 'application/json' }),
  });
  return { status: answer.status, body: await answer.json() };
}

export function envelope(message, flags = 0) {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(text.length, 1);
  return Buffer.concat([head, text]);
}

// A server stream: yields each message; the end of the stream is {end: {...}}. Stop it with `stop.abort()`.
export async function* stream(sandbox, method, body, { stop, headers = {} } = {}) {
  const answer = await fetch(serviceUrl(sandbox, kGuestPort, `/${method}`), {
    method: 'POST',
    body,
    duplex: 'half',
    signal: stop?.signal,
    headers: headersOf(sandbox, { 'content-type': 'application/connect+json', ...headers }),
  });
  if (answer.status !== 200) throw new Error(`${method}: ${answer.status} ${await answer.text()}`);
  let buffer = Buffer.alloc(0);
  for await (const part of answer.body) {
    buffer = Buffer.concat([buffer, part]);
    while (buffer.length >= 5 && buffer.length >= 5 + buffer.readUInt32BE(1)) {
      const size = buffer.readUInt32BE(1);
      const message = JSON.parse(buffer.subarray(5, 5 + size));
      yield (buffer[0] & 2) !== 0 ? { end: message } : message;
      buffer = buffer.subarray(5 + size);
    }
  }
}

export const bash = (command, more = {}) => ({
  process: { cmd: '/bin/bash', args: ['-l', '-c', command] },
  stdin: false,
  ...more,
});
