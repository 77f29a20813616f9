// SPDX-License-Identifier: Apache-2.0
// The instance that a JavaScript suite tests: the one that the environment names, or one of its own.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const support = fileURLToPath(new URL('.', import.meta.url));
const kSlots = ['3200', '200'];

// Gives {url, domain, key, ca, stop(failed)}; after a failure it shows what the daemons complained of. Environment of an instance that runs already:
//   ATOLL_E2E_URL, ATOLL_E2E_KEY, and optionally ATOLL_E2E_DOMAIN and ATOLL_E2E_CA.
// Environment of one of its own: ATOLL_PROGRAMS, the folder of the programs.
export async function startInstance(name = 'e2e') {
  const { ATOLL_E2E_URL: url, ATOLL_E2E_KEY: key, ATOLL_E2E_DOMAIN: domain, ATOLL_E2E_CA: ca } = process.env;
  if (url && key)
    return { url, key, ca, domain: domain ?? `atoll.localhost:${new URL(url).port}`, stop: async () => {} };
  const programs =
    process.env.ATOLL_PROGRAMS ?? fileURLToPath(new URL('../../build/dev/bin', import.meta.url));
  const child = spawn('python3', [support + 'serve_instance.py', programs, name, ...kSlots], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await Promise.race([lines.next(), ended.then(() => ({ done: true }))]);
  if (first.done) throw new Error('the instance did not start');
  const stop = async (failed = false) => {
    child.stdin.end(failed ? 'failed' : '');
    await ended;
  };
  return { ...JSON.parse(first.value), stop };
}
