// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, eventually, template, within } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 300_000 });
});
after(() => sandbox?.kill());

// A terminal with everything it has shown, and a wait for a text in it.
async function open(options = {}) {
  const screen = { text: '' };
  const decoder = new TextDecoder();
  const handle = await sandbox.pty.create({
    cols: 80,
    rows: 24,
    timeoutMs: 0,
    onData: (data) => {
      screen.text += decoder.decode(data, { stream: true });
    },
    ...options,
  });
  screen.handle = handle;
  screen.pid = handle.pid;
  screen.type = (text) => sandbox.pty.sendInput(handle.pid, new TextEncoder().encode(text));
  screen.shows = (pattern) =>
    eventually(`the terminal shows ${pattern}`, () => pattern.test(screen.text), 10_000);
  return screen;
}

test('a terminal runs bash, echoes and ends', async () => {
  const screen = await open();
  await screen.type('tty; echo $((40+2)); echo $TERM $LANG\n');
  await screen.shows(/\/dev\/pts\/\d+[\s\S]*\n42\r?\n[\s\S]*xterm-256color C\.UTF-8/);
  await screen.type('exit 3\n');
  await within(
    10_000,
    'the end',
    screen.handle.wait().then(
      (result) => assert.equal(result.exitCode, 3),
      (error) => assert.equal(error.exitCode, 3),
    ),
  );
});

test('size and resize', async () => {
  const screen = await open({ cols: 100, rows: 30 });
  await screen.type('stty size\n');
  await screen.shows(/30 100/);
  await sandbox.pty.resize(screen.pid, { cols: 133, rows: 44 });
  await screen.type('stty size\n');
  await screen.shows(/44 133/);
  assert.equal(await sandbox.pty.kill(screen.pid), true);
});

test('user, directory and environment', async () => {
  const screen = await open({ user: 'root', cwd: '/tmp', envs: { OWN: 'mine' } });
  await screen.type('echo "$(whoami) $(pwd) $OWN."\n');
  await screen.shows(/root \/tmp mine\./);
  await sandbox.pty.kill(screen.pid);
});

test('control-C interrupts the program, not the shell', async () => {
  const screen = await open();
  await screen.type('echo go; sleep 300\n');
  await screen.shows(/[\r\n]go\r?\n/);
  // A signal that meets the shell's child before it has become another program is lost on it.
  const found = 'grep -qx sleep /proc/[0-9]*/comm && echo yes || true';
  await eventually('sleep runs', async () => (await sandbox.commands.run(found)).stdout === 'yes\n');
  await screen.type('\x03');
  await screen.type('echo alive $((1+1))\n');
  await screen.shows(/alive 2/);
  await sandbox.pty.kill(screen.pid);
});

test('kill ends the shell and its children', async () => {
  const screen = await open();
  await screen.type('sleep 304 & echo child=$!\n');
  await screen.shows(/child=\d+/);
  const child = screen.text.match(/child=(\d+)/)[1];
  assert.equal(await sandbox.pty.kill(screen.pid), true);
  await within(
    10_000,
    'the end',
    screen.handle.wait().catch(() => {}),
  );
  for (const pid of [screen.pid, child]) {
    await eventually(
      `pid ${pid} is gone`,
      async () => {
        const found = await sandbox.commands.run(`kill -0 ${pid} 2>/dev/null && echo yes || echo no`, {
          user: 'root',
        });
        return found.stdout === 'no\n';
      },
      5_000,
    );
  }
  assert.equal(await sandbox.pty.kill(screen.pid), false);
});

test('a terminal lives on without its client', async () => {
  const screen = await open();
  if (typeof sandbox.pty.connect !== 'function') return sandbox.pty.kill(screen.pid);
  await screen.type('stay=here\n');
  await screen.handle.disconnect();
  let text = '';
  const again = await sandbox.pty.connect(screen.pid, {
    timeoutMs: 0,
    onData: (data) => {
      text += new TextDecoder().decode(data);
    },
  });
  await screen.type('echo "still $stay"\n');
  await eventually('the terminal answers', () => /still here/.test(text), 10_000);
  await again.kill();
});

test('wide output and unicode', async () => {
  const screen = await open({ cols: 200 });
  await screen.type("seq 1 20000; printf 'über 日本 fin%s\\n' ished\n");
  await screen.shows(/über 日本 finished/);
  assert.match(screen.text, /\n20000\r\n/);
  await sandbox.pty.kill(screen.pid);
});

test('input and size of nothing are refused', async () => {
  await assert.rejects(sandbox.pty.sendInput(999_999, new Uint8Array([10])), /not found/i);
  await assert.rejects(sandbox.pty.resize(999_999, { cols: 80, rows: 24 }), /not found/i);
  assert.equal(await sandbox.pty.kill(999_999), false);
});
