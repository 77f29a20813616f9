// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire, as no client library would send them.
import net from 'node:net';
import { apiKey, baseUrl } from './target.mjs';

const { hostname, port } = new URL(baseUrl);

export function connect() {
  const socket = net.connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  socket.on('error', () => {});
  return socket;
}

// Sends `bytes` and gives everything that comes until the server closes, or until `limitMs` passed.
export function send(bytes, { limitMs = 5_000, end = false, pace } = {}) {
  return new Promise((resolve) => {
    const socket = connect();
    const parts = [];
    const finish = (how) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(parse(Buffer.concat(parts), how));
    };
    const timer = setTimeout(() => finish('timeout'), limitMs);
    socket.on('data', (part) => parts.push(part));
    socket.on('end', () => finish('end'));
    socket.on('close', () => finish('reset'));
    socket.on('connect', async () => {
      if (pace) await pace(socket);
      else socket.write(bytes);
      if (end) socket.end();
    });
  });
}

// The first answer of a connection, and all statuses on it.
function parse(raw, how) {
  const text = raw.toString('latin1');
  const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map((match) => Number(match[1]));
  const [head, ...rest] = text.split('\r\n\r\n');
  const body = rest.join('\r\n\r\n');
  let json;
  try {
    json = JSON.parse(body);
  } catch {
    // not every answer is one JSON value
  }
  return { how, status: statuses[0], statuses, head, body, json, text };
}

export const key = `X-API-Key: ${apiKey}\r\n`;
export const host = `Host: ${hostname}:${port}\r\n`;

// A request head with the usual fields; `fields` end with CRLF each.
export function request(method, target, fields = '', body = '') {
  return `${method} ${target} HTTP/1.1\r\n${host}${key}Connection: close\r\n${fields}\r\n${body}`;
}

export function json(method, target, value, fields = '') {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  return request(
    method,
    target,
    `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${fields}`,
    body,
  );
}
