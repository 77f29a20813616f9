// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Sandbox, e2b, serviceFetch, template, within } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
});
after(() => sandbox?.kill());

const digest = (text) => createHash('sha256').update(text).digest('hex');
const execute = (code, more = {}, init = {}) =>
  serviceFetch(sandbox, 49999, '/execute', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-access-token': sandbox.envdAccessToken ?? '' },
    body: JSON.stringify({ code, ...more }),
    ...init,
  });

test('output comes while the code runs', async () => {
  const programs = {
    python: `
import os, time
print("first", flush=True)
while not os.path.exists("/tmp/go-python"): time.sleep(0.01)
print("second")`,
    bash: 'echo first; while [ ! -e /tmp/go-bash ]; do sleep 0.01; done; echo second',
    js: `
console.log("first");
const fs = require("fs");
while (!fs.existsSync("/tmp/go-js")) await new Promise((r) => setTimeout(r, 10));
console.log("second")`,
  };
  for (const [language, code] of Object.entries(programs)) {
    const seen = [];
    const ran = await sandbox.runCode(code, {
      language,
      onStdout: async ({ line }) => {
        seen.push(line);
        if (seen.length === 1) await sandbox.files.write(`/tmp/go-${language}`, '');
      },
    });
    assert.equal(ran.error, undefined, JSON.stringify(ran.error));
    assert.equal(seen.join(''), 'first\nsecond\n', language);
  }
});

test('characters are never torn', async () => {
  const text = 'ü漢🙂'.repeat(20_000);
  for (const [language, code] of [
    ['python', `print("ü漢🙂" * 20000, end="")`],
    ['js', `process.stdout.write("ü漢🙂".repeat(20000)); undefined`],
  ]) {
    const ran = await sandbox.runCode(code, { language });
    assert.equal(digest(ran.logs.stdout.join('')), digest(text), language);
  }
});

test('much output comes whole, also to a client that is slow', async () => {
  // More than all buffers on the way hold; the client does not read for a while.
  for (const [language, code] of [
    ['python', 'for n in range(300): print("x" * 99_999)'],
    ['bash', 'for n in $(seq 300); do head -c 99999 /dev/zero | tr "\\0" x; echo; done'],
    ['js', 'for (let n = 0; n < 300; n++) console.log("x".repeat(99999)); undefined'],
  ]) {
    const answer = await execute(code, { language });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    let bytes = 0;
    let text = '';
    let last;
    const decoder = new TextDecoder();
    for await (const part of answer.body) {
      text += decoder.decode(part, { stream: true });
      const lines = text.split('\n');
      text = lines.pop();
      for (const line of lines) {
        last = JSON.parse(line);
        if (last.type === 'stdout') bytes += last.text.length;
        assert.notEqual(last.type, 'error', line.slice(0, 300));
      }
    }
    assert.deepEqual([language, bytes, last.type], [language, 30_000_000, 'end_of_execution']);
  }
});

test('silence is broken by signs of life', async () => {
  const answer = await execute('import time; time.sleep(6)');
  const lines = (await answer.text()).trim().split('\n').map((line) => JSON.parse(line).type);
  assert.ok(lines.includes('keepalive'), lines.join());
  assert.equal(lines.at(-1), 'end_of_execution');
});

const loops = {
  python: 'while True: pass',
  javascript: 'while (true) {}',
  bash: 'while true; do :; done',
  r: 'while (TRUE) {}',
  java: 'while (true) {}',
};
const sets = { python: 'v = 7', javascript: 'var v = 7', bash: 'v=7', r: 'v <- 7', java: 'int v = 7;' };
const gets = { python: 'print(v)', javascript: 'console.log(v)', bash: 'echo $v', r: 'cat(v)', java: 'System.out.println(v);' };
// The next code runs, in the same kernel: one that heeds nothing is killed, and its variables are lost.
async function stillThere(language, what) {
  const next = await within(60_000, 'the next code', sandbox.runCode(gets[language], { language }));
  assert.equal(next.error, undefined, `${what}: ${JSON.stringify(next.error)}`);
  assert.equal(next.logs.stdout.join('').trim(), '7', what);
}
for (const [language, code] of Object.entries(loops)) {
  test(`${language}: after a client's time-out the context works at once, with its variables`, async () => {
    await sandbox.runCode(sets[language], { language });
    await assert.rejects(sandbox.runCode(code, { language, timeoutMs: 500 }), e2b.TimeoutError);
    await stillThere(language, code);
  });
}

test('a client that leaves interrupts its code', async () => {
  await sandbox.runCode(sets.python);
  const leave = new AbortController();
  const answer = await execute('print("on", flush=True)\nimport time\nwhile True: time.sleep(0.1)', {}, { signal: leave.signal });
  await answer.body.getReader().read();
  leave.abort();
  await stillThere('python', 'after "on"');
});

// An interrupt may come at any moment: before the code, in the middle of it, while its end is told, after it.
const moments = {
  python: ['while True: pass', '1/0', 'import asyncio\nawait asyncio.sleep(1000)', 'while True: print("x")'],
  javascript: ['while (true) {}', 'await 1; while (true) {}', 'await new Promise(() => {})', 'while (true) console.log("x")', '1'],
  bash: ['while true; do :; done', 'f() { while true; do :; done; }; while true; do f; done', 'sleep 1000; sleep 1000', 'true'],
  r: ['while (TRUE) {}', '1', 'repeat cat("x\\n")'],
  java: ['while (true) {}', 'Thread.sleep(1000000);', '1'],
};
for (const [language, codes] of Object.entries(moments)) {
  test(`${language}: an interrupt at any moment ends the code and only the code`, async () => {
    await sandbox.runCode(sets[language], { language });
    for (let round = 0; round < 20; round++) {
      const code = codes[round % codes.length];
      const leave = new AbortController();
      const answer = execute(code, { language }, { signal: leave.signal });
      answer.then((started) => started.body.cancel()).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 2 ** (round % 8)));
      leave.abort();
      await stillThere(language, code);
    }
  });
}

test('a kernel that is killed is a typed error, and the context recovers', async () => {
  for (const [language, code] of [
    ['python', 'import os; os.kill(os.getpid(), 9)'],
    ['js', 'process.kill(process.pid, "SIGKILL"); await new Promise(() => {})'],
    ['bash', 'kill -9 $$'],
  ]) {
    const died = await sandbox.runCode(code, { language });
    assert.equal(died.error.name, 'KernelDied');
    assert.match(died.error.value, /killed/);
    const next = await sandbox.runCode('1', { language });
    if (language !== 'bash') assert.equal(next.text, '1');
  }
});

test('a kernel that ends between two calls is told of once', async () => {
  await sandbox.runCode('kept = 1');
  await sandbox.commands.run('pkill -9 -f python_kernel.py', { user: 'root' });
  const told = await sandbox.runCode('kept');
  assert.equal(told.error.name, 'KernelDied');
  assert.equal((await sandbox.runCode('2')).text, '2');
});

test('a sandbox that is killed breaks the call off', async () => {
  const victim = await Sandbox.create(template, { timeoutMs: 120_000 });
  let begun;
  const started = new Promise((resolve) => (begun = resolve));
  const running = victim.runCode('print("on", flush=True)\nimport time\ntime.sleep(60)', { onStdout: begun });
  running.catch(() => {});
  await started;
  await victim.kill();
  await assert.rejects(running);
});
