// SPDX-License-Identifier: Apache-2.0
// Runs the whole suite: each published client over plain HTTP and over TLS with names, then the raw-wire tests.
//   node run.mjs [--only TEXT,...] [--client NAME] [--mode plain|tls] [--tier container|gvisor|microvm]
//   node run.mjs --folder interpreter --client @e2b/code-interpreter --template code-interpreter-v1 [...]
// With a tier other than container, only the newest client is run unless one is named.
// Uses the instance that ATOLL_E2E_URL and ATOLL_E2E_KEY name, or starts one of its own (tests/support/instance.mjs).
// The last line is "N passed, N failed, N skipped"; the exit code is 1 when something failed.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startInstance } from '../support/instance.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const { values: chosen } = parseArgs({
  options: {
    only: { type: 'string' },
    client: { type: 'string' },
    mode: { type: 'string' },
    tier: { type: 'string' },
    folder: { type: 'string' },
    template: { type: 'string' },
  },
});

const tier = chosen.tier ?? process.env.ATOLL_E2E_TIER ?? 'container';
const clients = chosen.folder ? [chosen.client] : tier !== 'container' ? ['e2b'] : ['e2b', 'e2b-2.50', 'e2b-2.46', 'e2b-2.20'];
const modes = ['plain', 'tls'];
const kParallelFiles = 4;
const kFileLimitMs = 300_000;

const total = { passed: 0, failed: 0, skipped: 0 };
const failures = [];

function filesOf(folder) {
  return readdirSync(here + folder)
    .filter((name) => name.endsWith('.test.mjs'))
    .sort()
    .map((name) => `${folder}/${name}`)
    .filter((name) => !chosen.only || chosen.only.split(',').some((text) => name.includes(text)));
}

// One test file in a process of its own: what the client reads from the environment is fixed when it starts.
function runFile(file, environment, label) {
  return new Promise((resolve) => {
    const child = spawn(
      process.execPath,
      ['--test-force-exit', '--test-reporter', `${here}lib/reporter.mjs`, here + file],
      {
        cwd: here,
        env: environment,
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const timer = setTimeout(() => child.kill('SIGKILL'), kFileLimitMs);
    let seen = 0;
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.startsWith('{')) return;
      const result = JSON.parse(line);
      ++seen;
      ++total[result.outcome];
      if (result.outcome === 'skipped')
        console.log(`SKIPPED ${label} ${file}: ${result.name}: ${result.why}`);
      if (result.outcome === 'failed') {
        failures.push(`${label} ${file}: ${result.name}`);
        console.log(`FAILED  ${label} ${file}: ${result.name}\n${result.why.replace(/^/gm, '        ')}`);
      }
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (seen === 0 || signal) {
        ++total.failed;
        failures.push(`${label} ${file}: ended without a result (${signal ?? code})`);
        console.log(`FAILED  ${failures.at(-1)}`);
      }
      resolve();
    });
  });
}

async function runGroup(label, files, environment) {
  if (files.length === 0) return;
  const started = Date.now();
  const before = { ...total };
  const queue = [...files];
  const worker = async () => {
    while (queue.length > 0) await runFile(queue.shift(), environment, label);
  };
  await Promise.all(Array.from({ length: kParallelFiles }, worker));
  const [passed, failed] = [total.passed - before.passed, total.failed - before.failed];
  console.log(
    `${label}: ${passed} passed, ${failed} failed in ${((Date.now() - started) / 1000).toFixed(1)} s`,
  );
}

function environmentFor(instance, client, mode) {
  const environment = { ...process.env };
  for (const name of Object.keys(environment)) {
    if (name.startsWith('E2B_') || name.startsWith('ATOLL_') || name === 'NODE_OPTIONS')
      delete environment[name];
  }
  Object.assign(environment, {
    ATOLL_E2E_URL: instance.url,
    ATOLL_E2E_DOMAIN: instance.domain,
    ATOLL_E2E_KEY: instance.key,
    ATOLL_E2E_CLIENT: client,
    ATOLL_E2E_MODE: mode,
    ATOLL_E2E_CA: instance.ca ?? '',
    E2B_API_KEY: instance.key,
  });
  const named = chosen.template ?? process.env.ATOLL_E2E_TEMPLATE;
  if (named) environment.ATOLL_E2E_TEMPLATE = named;
  environment.ATOLL_E2E_TIER = tier;
  // Where it is the host's default, nobody names it.
  const asked = named || tier !== process.env.ATOLL_E2E_DEFAULT_TIER;
  if (tier !== 'container' && asked) environment.ATOLL_E2E_TEMPLATE = `${named ?? 'base'}@${tier}`;
  if (mode === 'plain')
    Object.assign(environment, { E2B_API_URL: instance.url, E2B_SANDBOX_URL: instance.url });
  else
    Object.assign(environment, {
      E2B_DOMAIN: instance.domain,
      NODE_EXTRA_CA_CERTS: instance.ca,
      NODE_OPTIONS: `--require ${here}lib/dns.cjs`,
    });
  return environment;
}

const instance = await startInstance();
process.once('SIGTERM', async () => {
  await instance.stop();
  process.exit(143);
});
try {
  console.log(`testing ${instance.url} (${instance.domain})`);
  for (const client of clients.filter((name) => !chosen.client || name === chosen.client)) {
    for (const mode of modes.filter((name) => !chosen.mode || name === chosen.mode)) {
      if (mode === 'tls' && !instance.ca) {
        console.log(`SKIPPED ${client} tls: ATOLL_E2E_CA does not name the certificate of the instance`);
        ++total.skipped;
        continue;
      }
      // What attacks try is behind TLS what it is without.
      const files = filesOf(chosen.folder ?? 'sdk').filter((name) => mode === 'plain' || !name.includes('attacks'));
      await runGroup(`${client} ${mode}`, files, environmentFor(instance, client, mode));
    }
  }
  // One file at a time: these measure how well others are served meanwhile.
  for (const file of chosen.folder ? [] : filesOf('raw'))
    await runGroup('raw', [file], environmentFor(instance, 'e2b', 'plain'));
} finally {
  await instance.stop(total.failed > 0);
}
if (failures.length > 0) console.log(`\nfailed:\n  ${failures.join('\n  ')}`);
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed > 0 ? 1 : 0;
