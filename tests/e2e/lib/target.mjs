// SPDX-License-Identifier: Apache-2.0
// What the tests of one run speak to, and with which published client. run.mjs sets the environment:
//   ATOLL_E2E_URL     http://127.0.0.1:7400          the one port of the instance
//   ATOLL_E2E_DOMAIN  atoll.localhost:7400           domain of its sandbox names
//   ATOLL_E2E_KEY     e2b_…
//   ATOLL_E2E_CLIENT  e2b, e2b-2.20, …               which installed client
//   ATOLL_E2E_TEMPLATE base, or base@gvisor           what sandboxes start from, and in which tier
//   ATOLL_E2E_TIER    the tier that it is to be in, where the template does not name it
//   ATOLL_E2E_MODE    plain | tls                    plain HTTP with headers, or TLS with names
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import WebSocket from 'ws';

export const mode = process.env.ATOLL_E2E_MODE ?? 'plain';
export const clientName = process.env.ATOLL_E2E_CLIENT ?? 'e2b';
export const baseUrl = process.env.ATOLL_E2E_URL ?? 'http://127.0.0.1:7400';
export const domain = process.env.ATOLL_E2E_DOMAIN ?? 'atoll.localhost:7400';
export const apiKey = process.env.ATOLL_E2E_KEY;
export const template = process.env.ATOLL_E2E_TEMPLATE ?? 'base';
export const tier = template.includes('@')
  ? template.slice(template.lastIndexOf('@') + 1)
  : (process.env.ATOLL_E2E_TIER ?? 'container');
export const apiUrl = mode === 'tls' ? `https://api.${domain}` : baseUrl;

export const e2b = await import(clientName);
export const { Sandbox } = e2b;

const root = fileURLToPath(new URL(`../node_modules/${clientName}/`, import.meta.url));
const source = readFileSync(root + 'dist/index.js', 'utf8');
export const version = JSON.parse(readFileSync(root + 'package.json', 'utf8')).version;

// Older clients lack some features: tests of those ask for a word of the client's source.
export const has = (word) => source.includes(word);
export const needs = (...words) => {
  const missing = words.find((word) => !has(word));
  return missing ? { skip: `${clientName} ${version} has no ${missing}` } : {};
};

// What a tier cannot do is skipped there; the tier's guide (docs/guides) has the reason.
export const notIn = (...tiers) =>
  tiers.includes(tier) ? { skip: `tier ${tier} cannot do this: docs/guides/${tier}.md` } : {};

// Calls `work` with a sandbox of its own and removes it whatever happens.
export async function withSandbox(options, work) {
  const sandbox = await Sandbox.create(template, { timeoutMs: 120_000, ...options });
  try {
    return await work(sandbox);
  } finally {
    await sandbox.kill().catch(() => {});
  }
}

// True when it was running. Old clients tell that only by the static call.
export const killed = (sandbox) => Sandbox.kill(sandbox.sandboxId);

// A request to a service inside the sandbox, as a user of the published address makes it.
export function serviceUrl(sandbox, port, path = '/') {
  return mode === 'tls' ? `https://${sandbox.getHost(port)}${path}` : `${baseUrl}${path}`;
}

export function serviceHeaders(sandbox, port) {
  return mode === 'tls' ? {} : { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) };
}

export function serviceFetch(sandbox, port, path = '/', init = {}) {
  const headers = { ...serviceHeaders(sandbox, port), ...(init.headers ?? {}) };
  return fetch(serviceUrl(sandbox, port, path), { ...init, headers });
}

export function openWebSocket(sandbox, port, path = '/', headers = {}) {
  const url = serviceUrl(sandbox, port, path).replace(/^http/, 'ws');
  return new WebSocket(url, { headers: { ...serviceHeaders(sandbox, port), ...headers } });
}

export function apiFetch(path, init = {}) {
  return fetch(apiUrl + path, { ...init, headers: { 'X-API-Key': apiKey, ...(init.headers ?? {}) } });
}

// Asks again until `check` gives something true; fails with its last error or value after `limitMs`.
export async function eventually(what, check, limitMs = 10_000) {
  const deadline = Date.now() + limitMs;
  let last;
  for (;;) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline)
      throw new Error(`${what}: not within ${limitMs} ms; last: ${last?.stack ?? JSON.stringify(last)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// A promise with its two ends.
export function deferred() {
  let resolve, reject;
  const promise = new Promise((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
}

export async function within(limitMs, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
