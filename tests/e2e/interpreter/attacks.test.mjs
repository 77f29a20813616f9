// SPDX-License-Identifier: Apache-2.0
// Code that attacks its own kernel. Whatever becomes of it, it is told within bounds; its context works again, at the latest after
// one word that its kernel died; and another context has noticed nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, e2b, mode, serviceFetch, template, within } from '../lib/target.mjs';

let sandbox, witness;
// What code does to its kernel does not depend on how the client is connected.
const once = { skip: mode === 'tls' && 'the same as over plain HTTP' };
before(async () => {
  if (once.skip) return;
  sandbox = await Sandbox.create(template, { timeoutMs: 900_000 });
  witness = await sandbox.createCodeContext({ language: 'python' });
  await sandbox.runCode('kept = 20', { context: witness });
});
after(() => sandbox?.kill());

const kernel = 'k = get_ipython().kernel\n';
const attacks = {
  python: {
    'closes its outputs': 'import os, sys\nos.close(1); os.close(2); sys.stdout.close()',
    'goes on in a child, too': 'import os\nos.fork()',
    'leaves a child that runs': 'import os, time\nif os.fork() == 0: time.sleep(1000)',
    'heeds no signal': 'import signal\nfor s in (2, 15, 1): signal.signal(s, signal.SIG_IGN)\nwhile True: pass',
    exits: 'import sys\nsys.exit(3)',
    'ends at once': 'import os\nos._exit(3)',
    'overflows its stack': 'import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()',
    'takes more memory than there is': 'x = b"x" * (8 << 30)',
    'fails while it is shown':
      'class X:\n  def _repr_html_(self): raise ValueError("x")\n  def __repr__(self): return 5\nX()',
    'shows strange formats':
      'from IPython.display import display\n' +
      'display({"type": "end_of_execution", "is_main_result": 7, "__proto__": "x", "": "y", "a" * 100000: "z"}, raw=True)',
    'shows what is no JSON': 'from IPython.display import display\ndisplay({"application/json": float("nan")}, raw=True)',
    'shows what is nested deep':
      'from IPython.display import display\nx = []\nfor _ in range(500): x = [x]\ndisplay({"application/json": x}, raw=True)',
    'prints halves of characters': 'print("\\ud800")\n"\\udfff"',
    'has a giant result': '"x" * (80 << 20)',
    'says a thousand times that it is idle':
      `${kernel}for _ in range(1000):\n` +
      '  k.session.send(k.iopub_socket, "status", {"execution_state": "idle"}, parent=k.get_parent("shell"))',
    'sends what is no message':
      `${kernel}mark = b"<IDS|MSG>"\n` +
      'for parts in ([b""], [mark], [mark, b"", b"{", b"{}", b"{}", b"{}"], [b"x"] * 500, [mark, b"\\xff", b"[]", b"7"]):\n' +
      '  k.iopub_socket.send_multipart(parts)',
    'closes its socket': `${kernel}k.iopub_socket.close()`,
    'stops its loop': 'import asyncio\nasyncio.get_event_loop().stop()',
    'prints for ever in a thread':
      'import threading\ndef f():\n  while True: print("x" * 100)\nthreading.Thread(target=f, daemon=True).start()',
    'replaces its streams': 'import sys\nsys.stdout = sys.stderr = None',
    'leaves its directory and removes it': 'import os, tempfile\nd = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)',
  },
  javascript: {
    'closes all that is open': 'for (let fd = 0; fd < 40; ++fd) try { require("fs").closeSync(fd) } catch {}',
    exits: 'process.exit(3)',
    aborts: 'process.abort()',
    'throws nothing': 'throw null',
    'throws what cannot be shown':
      'throw new Proxy({}, { get() { throw new Error("x") }, getPrototypeOf() { throw 1 } })',
    'changes what everybody uses':
      'Object.prototype.toJSON = () => "x"; Array.prototype.push = null; JSON.stringify = () => "{"; Promise = null; 1',
    'fails later':
      'setTimeout(() => { throw new Error("later") }, 0); Promise.reject(new Error("nobody waits")); 1',
    'fills its memory': 'const all = []; while (true) all.push(new Array(1e6).fill(1))',
  },
  bash: {
    'becomes another program': 'exec true',
    'replaces what runs it': 'eval() { :; }; read() { :; }; printf() { :; }',
    'ends at the first failure': 'set -eu; false',
    'closes all that is open': 'for fd in 0 1 2 198 199; do eval "exec $fd>&-"; done',
    'forgets its traps': 'trap - INT DEBUG; trap "" TERM HUP; while true; do :; done',
    'stops itself': 'kill -STOP $$',
    'says that it is done':
      `for f in {/dev/shm,/tmp}/.atoll-interpreter-*/*.events; do [ -e $f ] && echo '{"done":true}' >$f; done`,
  },
};
const on = { python: 'print("on")', javascript: 'console.log("on")', bash: 'echo on' };

async function attack(code, context) {
  try {
    await within(60_000, 'the end of the code', sandbox.runCode(code, { context, timeoutMs: 4_000 }));
  } catch (error) {
    assert.ok(error instanceof e2b.TimeoutError, `${error}`);
  }
}

// A restart heals what code has made of its kernel; without one a context may only be lost to itself.
async function worksAfter(context, language) {
  for (let round = 0; round < 3; ++round) {
    if (round === 2) await within(60_000, 'a restart', sandbox.restartCodeContext(context));
    let ran;
    try {
      ran = await within(60_000, 'the next code', sandbox.runCode(on[language], { context, timeoutMs: 20_000 }));
    } catch (error) {
      assert.ok(error instanceof e2b.TimeoutError, `${error}`);
      continue;
    }
    if (ran.logs.stdout.join('').includes('on\n')) return;
  }
  assert.fail('its context does not work any more');
}

for (const [language, programs] of Object.entries(attacks)) {
  for (const [what, code] of Object.entries(programs)) {
    test(`attack: ${language} that ${what}`, once, async () => {
      const context = await sandbox.createCodeContext({ language });
      await attack(code, context);
      await worksAfter(context, language);
      assert.equal((await sandbox.runCode('kept', { context: witness })).text, '20', 'another context');
      await sandbox.removeCodeContext(context);
    });
  }
}

test('attack: a directory that is a link, is gone, or is another user\'s', once, async () => {
  await sandbox.commands.run('mkdir -p /tmp/real && ln -sfn /tmp/real /tmp/link && ln -sfn /nowhere /tmp/dangling');
  const linked = await sandbox.createCodeContext({ language: 'bash', cwd: '/tmp/link' });
  assert.equal((await sandbox.runCode('pwd -P', { context: linked })).logs.stdout.join(''), '/tmp/real\n');
  const before = (await sandbox.listCodeContexts()).length;
  for (const cwd of ['/tmp/dangling', '/etc/passwd', '/root', '/proc/1/cwd', '/no/such', `/${'x'.repeat(5000)}`])
    await assert.rejects(sandbox.createCodeContext({ language: 'bash', cwd }), /./, cwd);
  assert.equal((await sandbox.listCodeContexts()).length, before, 'nothing is left of those that failed');
});

test('attack: another user of the sandbox reads no connection file', once, async () => {
  await sandbox.commands.run('useradd --no-create-home stranger', { user: 'root' });
  const looked = await sandbox.commands.run(
    `su -s /bin/sh stranger -c 'for d in /tmp /dev/shm; do ls $d/.atoll-interpreter-*/ 2>/dev/null; done; echo looked'`,
    { user: 'root' });
  assert.equal(looked.stdout, 'looked\n');
});

test('attack: one who is there and takes nothing, many at once, then leaves', once, async () => {
  const leave = new AbortController();
  const begun = Array.from({ length: 40 }, () =>
    serviceFetch(sandbox, 49999, '/execute', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-access-token': sandbox.envdAccessToken ?? '' },
      body: JSON.stringify({ code: 'while True: print("x" * 10000)' }),
      signal: leave.signal,
    }).catch(() => {}));
  await Promise.race(begun);
  leave.abort();
  await Promise.all(begun);
  const next = await within(120_000, 'the next code', sandbox.runCode('print("on")'));
  assert.equal(next.logs.stdout.join(''), 'on\n');
});
