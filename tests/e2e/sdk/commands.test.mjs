// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import {
  Sandbox, apiKey, apiUrl, deferred, e2b, eventually, has, needs, notIn, template, tier, within,
} from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
});
after(() => sandbox?.kill());

const run = (command, options) => sandbox.commands.run(command, options);
const alive = async (pid) =>
  (await run(`kill -0 ${pid} 2>/dev/null && echo yes || echo no`, { user: 'root' })).stdout.trim() === 'yes';

test('stdout, stderr and exit code', async () => {
  const result = await run('echo out; echo err >&2');
  assert.deepEqual([result.exitCode, result.stdout, result.stderr], [0, 'out\n', 'err\n']);
});

test('a failing command throws with its code and output', async () => {
  await assert.rejects(run('echo before; echo why >&2; exit 7'), (error) => {
    assert.ok(error instanceof e2b.CommandExitError);
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [7, 'before\n', 'why\n']);
    assert.match(error.error, /exit status 7/);
    return true;
  });
});

test('commands are bash, from a login shell', async () => {
  assert.equal((await run('echo "${BASH_VERSION:+bash}"; [[ a == a ]] && echo ok')).stdout, 'bash\nok\n');
  assert.equal((await run('shopt -q login_shell && echo login')).stdout, 'login\n');
});

test('the default user, its home and directory', async () => {
  assert.equal(
    (await run('whoami; echo $HOME; pwd; echo $USER $LOGNAME')).stdout,
    'user\n/home/user\n/home/user\nuser user\n',
  );
});

test('the tier in force is the one that is tested', async () => {
  const answer = await fetch(`${apiUrl}/sandboxes/${sandbox.sandboxId}`, { headers: { 'X-API-Key': apiKey } });
  assert.equal((await answer.json()).isolation, tier);
});

test('another user', async () => {
  assert.equal((await run('whoami; echo $HOME', { user: 'root' })).stdout, 'root\n/root\n');
  await assert.rejects(run('true', { user: 'nobody-here' }), /invalid username: 'nobody-here'/);
});

test('sudo works without a password', notIn('gvisor'), async () => {
  assert.equal((await run('sudo whoami')).stdout, 'root\n');
});

test('cwd', async () => {
  assert.equal((await run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n');
  await assert.rejects(run('pwd', { cwd: '/no/such/dir' }), /cwd '\/no\/such\/dir' does not exist/);
});

test('environment of one command stays with it', async () => {
  assert.equal((await run('echo $ONLY_HERE', { envs: { ONLY_HERE: 'a b' } })).stdout, 'a b\n');
  assert.equal((await run('echo "[$ONLY_HERE]"')).stdout, '[]\n');
  assert.equal((await run('echo ${#LONG}', { envs: { LONG: 'x'.repeat(100_000) } })).stdout, '100000\n');
});

test('output streams as it is made', async () => {
  const first = deferred();
  await run('test -p /tmp/e2e-go || mkfifo /tmp/e2e-go');
  const command = run('echo one; read -r line < /tmp/e2e-go; echo "two $line"', {
    onStdout: (text) => text.includes('one') && first.resolve(text),
  });
  await within(10_000, 'first output', first.promise);
  await run('echo now > /tmp/e2e-go');
  assert.equal((await command).stdout, 'one\ntwo now\n');
});

test('stdout and stderr callbacks', async () => {
  const got = { out: '', err: '' };
  await run('for i in 1 2 3; do echo o$i; echo e$i >&2; done', {
    onStdout: (text) => {
      got.out += text;
    },
    onStderr: (text) => {
      got.err += text;
    },
  });
  assert.deepEqual(got, { out: 'o1\no2\no3\n', err: 'e1\ne2\ne3\n' });
});

test('unicode arrives whole', async () => {
  const text = '日本語 🚀 é\u0301 \u{10FFFF}';
  assert.equal((await run(`printf %s '${text}'`)).stdout, text);
  const wide = await run(`python3 -c "print('é' * 200000, end='')"`);
  assert.equal(wide.stdout, 'é'.repeat(200_000));
});

test('big outputs arrive whole', { timeout: 60_000 }, async () => {
  const result = await run('head -c 20000000 /dev/zero | tr "\\0" x', { timeoutMs: 50_000 });
  assert.equal(result.stdout.length, 20_000_000);
  assert.equal(
    createHash('sha256').update(result.stdout).digest('hex'),
    createHash('sha256').update('x'.repeat(20_000_000)).digest('hex'),
  );
});

test('long command lines', async () => {
  const text = 'y'.repeat(100_000);
  assert.equal((await run(`printf %s ${text} | wc -c`)).stdout.trim(), '100000');
});

test('a background command is waited for', async () => {
  const handle = await run('echo begun; exit 4', { background: true });
  assert.ok(handle.pid > 0);
  await assert.rejects(handle.wait(), (error) => error.exitCode === 4 && error.stdout === 'begun\n');
  assert.equal(handle.exitCode, 4);
});

test('list shows what runs and nothing that ended', async () => {
  const handle = await run('sleep 300', { background: true, envs: { MARK: 'listed' }, cwd: '/tmp' });
  const found = (await sandbox.commands.list()).find((each) => each.pid === handle.pid);
  assert.ok(found, 'listed while it runs');
  assert.match(found.cmd, /bash$/);
  assert.deepEqual(found.args.slice(-2), ['-c', 'sleep 300']);
  assert.equal(found.envs.MARK, 'listed');
  assert.equal(found.cwd, '/tmp');
  assert.equal(await handle.kill(), true);
  await eventually(
    'it leaves the list',
    async () => !(await sandbox.commands.list()).some((each) => each.pid === handle.pid),
    3_000,
  );
});

test('kill ends the process and says how it ended', async () => {
  const handle = await run('sleep 300', { background: true });
  assert.equal(await sandbox.commands.kill(handle.pid), true);
  await within(
    5_000,
    'the end',
    assert.rejects(handle.wait(), (error) => {
      assert.match(error.error ?? error.message, /signal: killed/);
      return true;
    }),
  );
  await eventually('the pid is gone', async () => !(await alive(handle.pid)), 3_000);
  assert.equal(await sandbox.commands.kill(handle.pid), false);
  assert.equal(await sandbox.commands.kill(999_999), false);
});

test('a process that kills itself by a signal', async () => {
  await assert.rejects(run('kill -TERM $$'), (error) => {
    assert.match(error.error ?? '', /signal: terminated/);
    return true;
  });
});

test('stdin', async () => {
  const seen = deferred();
  const handle = await run('while read -r line; do echo "got $line"; [ "$line" = end ] && break; done', {
    background: true,
    ...(has('stdin:') ? { stdin: true } : {}),
    onStdout: (text) => text.includes('got first') && seen.resolve(),
  });
  await sandbox.commands.sendStdin(handle.pid, 'first\n');
  await within(5_000, 'echo', seen.promise);
  await sandbox.commands.sendStdin(handle.pid, 'wörld\nend\n');
  assert.equal((await handle.wait()).stdout, 'got first\ngot wörld\ngot end\n');
});

test('stdin can be closed', needs('closeStdin'), async () => {
  const handle = await run('cat; echo done', { background: true, stdin: true });
  await sandbox.commands.sendStdin(handle.pid, 'a'.repeat(200_000));
  await sandbox.commands.closeStdin(handle.pid);
  const result = await within(10_000, 'the end', handle.wait());
  assert.equal(result.stdout, 'a'.repeat(200_000) + 'done\n');
});

test('without stdin a reader sees the end at once', async () => {
  assert.equal((await within(10_000, 'the end', run('cat; echo closed'))).stdout, 'closed\n');
});

test('input to a process that is gone is refused', async () => {
  await assert.rejects(sandbox.commands.sendStdin(999_999, 'x'), /not found/i);
});

test('a timeout kills the whole group and says so', async () => {
  const started = Date.now();
  await assert.rejects(
    run('echo $$ > /tmp/e2e-pid; sleep 301 & echo $! > /tmp/e2e-child; wait', { timeoutMs: 1_500 }),
    (error) => {
      assert.ok(error instanceof e2b.TimeoutError, `${error.name}: ${error.message}`);
      return true;
    },
  );
  assert.ok(Date.now() - started < 6_000);
  for (const file of ['/tmp/e2e-pid', '/tmp/e2e-child']) {
    const pid = (await run(`cat ${file}`)).stdout.trim();
    await eventually(`${file} is gone`, async () => !(await alive(pid)), 5_000);
  }
});

test('a background child does not hold the command', async () => {
  const result = await within(10_000, 'the end', run('sleep 302 > /dev/null 2>&1 & echo off'));
  assert.equal(result.stdout, 'off\n');
  await run('pkill -f "[s]leep 302" || true');
});

test('disconnect leaves it running, connect takes it up', async () => {
  const handle = await run('for i in $(seq 1 600); do echo tick $i; sleep 0.1; done', { background: true });
  await handle.disconnect();
  assert.equal(await alive(handle.pid), true);
  const heard = deferred();
  const again = await sandbox.commands.connect(handle.pid, {
    onStdout: (text) => /tick \d+/.test(text) && heard.resolve(),
  });
  assert.equal(again.pid, handle.pid);
  await within(5_000, 'output after connect', heard.promise);
  assert.equal(await again.kill(), true);
});

test('connect gets the end of a process that just ended', async () => {
  const handle = await run('sleep 0.3; exit 9', { background: true });
  const again = await sandbox.commands.connect(handle.pid);
  await assert.rejects(again.wait(), (error) => error.exitCode === 9);
  await assert.rejects(handle.wait(), (error) => error.exitCode === 9);
});

test('connect to nothing is refused', async () => {
  await assert.rejects(sandbox.commands.connect(999_999), /not found/i);
});

test('two clients hear the same process', async () => {
  await run('test -p /tmp/e2e-two || mkfifo /tmp/e2e-two');
  const handle = await run('read -r line < /tmp/e2e-two; echo "both $line"', { background: true });
  const again = await sandbox.commands.connect(handle.pid);
  await run('echo hear > /tmp/e2e-two');
  assert.equal((await within(10_000, 'first', handle.wait())).stdout, 'both hear\n');
  assert.equal((await within(10_000, 'second', again.wait())).stdout, 'both hear\n');
});

test('a client that does not read does not hold the process', async () => {
  const handle = await run('head -c 30000000 /dev/zero; echo over > /tmp/e2e-over', { background: true });
  await handle.disconnect();
  await eventually(
    'the process ends',
    async () => (await run('cat /tmp/e2e-over 2>/dev/null || true')).stdout === 'over\n',
    20_000,
  );
});

test('many commands at once', { timeout: 60_000 }, async () => {
  const results = await Promise.all(Array.from({ length: 50 }, (_, n) => run(`echo ${n}; exit 0`)));
  assert.deepEqual(
    results.map((result) => result.stdout),
    Array.from({ length: 50 }, (_, n) => `${n}\n`),
  );
});

test('an exit in the shell ends only that command', async () => {
  for (let n = 0; n < 3; ++n) await run('exit 0');
  assert.equal((await run('echo fine')).stdout, 'fine\n');
});

test('an empty command and odd bytes', async () => {
  assert.equal((await run('')).exitCode, 0);
  assert.equal((await run("printf 'a\\000b' | od -An -c")).stdout.replace(/\s+/g, ''), 'a\\0b');
  await run('printf "\\377\\376"');
});

test('zombies do not stay', async () => {
  await run('for i in $(seq 1 20); do (sleep 0.01 &) ; done');
  await eventually(
    'no zombie',
    async () => (await run("ps -eo stat= | grep -c '^Z' || true")).stdout.trim() === '0',
    5_000,
  );
});

test('an aborted call fails at once', needs('startedAfter'), async () => {
  const stop = new AbortController();
  const command = run('sleep 303', { signal: stop.signal, timeoutMs: 0 });
  command.catch(() => {});
  setImmediate(() => stop.abort());
  await within(5_000, 'the abort', assert.rejects(command));
  await run('pkill -f "[s]leep 303" || true');
});

test('git through the client', needs('Git('), async () => {
  await sandbox.git.init('/tmp/e2e-repo', { initialBranch: 'main' });
  await sandbox.files.write('/tmp/e2e-repo/a.txt', 'x');
  await sandbox.git.add('/tmp/e2e-repo');
  await sandbox.git.commit('/tmp/e2e-repo', 'first', { authorName: 'A', authorEmail: 'a@example.com' });
  const status = await sandbox.git.status('/tmp/e2e-repo');
  assert.equal(status.currentBranch, 'main');
  assert.equal(status.isClean, true);
});
