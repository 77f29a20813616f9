// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, template } from '../lib/target.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
});
after(() => sandbox?.kill());

const runIn = (language) => async (code) => {
  const ran = await sandbox.runCode(code, { language });
  assert.equal(ran.error, undefined, JSON.stringify(ran.error));
  return ran;
};

test('python: magic, top-level await, indented code, other programs', async () => {
  const run = runIn('python');
  assert.equal((await run('    a = 1\n    a + 1')).text, '2');
  assert.equal((await run('import asyncio\nawait asyncio.sleep(0.01, "later")')).text, 'later');
  assert.deepEqual((await run('!echo from a shell')).logs.stdout.join(''), 'from a shell\r\n');
  const programs = await run('import os; os.system("echo out; echo err >&2"); None');
  assert.deepEqual([programs.logs.stdout.join(''), programs.logs.stderr.join('')], ['out\n', 'err\n']);
});

test('python: the output of forked children', async () => {
  // It comes by a socket of its own, beside that of the code, which does not wait for it.
  const code = 'import os, sys, time\nif os.fork() == 0:\n    sys.stdout.write("child\\n"); os._exit(0)\nos.wait(); time.sleep(1)';
  assert.equal((await runIn('python')(code)).logs.stdout.join(''), 'child\n');
});

test('javascript: declarations live on, await, imports, require', async () => {
  const run = runIn('javascript');
  await run('const a = 1; let { b, c: [d] } = { b: 2, c: [3] }; function f(x) { return x + a } class K { m() { return 4 } }');
  assert.equal((await run('f(b) + d + new K().m()')).text, '10');
  assert.equal((await run('const a = 5; a')).text, '5', 'declared again');
  assert.equal((await run('const late = await new Promise((r) => setTimeout(() => r("late"), 10)); late')).text, 'late');
  await run('import fs, { readFileSync } from "node:fs"; import * as path from "node:path"');
  assert.equal((await run('typeof fs.existsSync + typeof readFileSync + path.sep')).text, 'functionfunction/');
  assert.equal((await run('require("node:os").EOL === "\\n"')).text, 'true');
  const printed = await run('console.log("out"); console.error("err")');
  assert.deepEqual([printed.logs.stdout.join(''), printed.logs.stderr.join('')], ['out\n', 'err\n']);
  assert.deepEqual((await run('({ x: [1, 2] })')).results[0].json, { x: [1, 2] });
  assert.equal((await run('undefined')).results.length, 0);
  const failed = await sandbox.runCode('throw new TypeError("no")', { language: 'js' });
  assert.deepEqual([failed.error.name, failed.error.value], ['TypeError', 'no']);
  const wrong = await sandbox.runCode('let q = ;', { language: 'js' });
  assert.equal(wrong.error.name, 'SyntaxError');
});

test('typescript', async () => {
  const run = runIn('ts');
  await run('interface Point { x: number }\nenum Side { Left = 3 }\nconst p: Point = { x: 4 }');
  assert.equal((await run('p.x * (Side.Left as number)')).text, '12');
  await run('import { join } from "node:path"');
  assert.equal((await run('join("a", "b")')).text, 'a/b', 'an import that one piece does not use is there for the next');
});

test('bash: variables, functions and the directory live on', async () => {
  const run = runIn('bash');
  await run('cd /tmp; x="a  b"; greet() { echo "hello $1"; }');
  assert.equal((await run('pwd; echo "$x"; greet you; echo err >&2')).logs.stdout.join(''), '/tmp\na  b\nhello you\n');
  const failed = await sandbox.runCode('echo before; (exit 3)', { language: 'bash' });
  assert.deepEqual([failed.error.name, failed.error.value], ['ExitStatus', 'exit status 3']);
  assert.equal((await run('cat; echo end')).logs.stdout.join(''), 'end\n', 'there is no input to wait for');
});

test('r', async () => {
  const run = runIn('r');
  await run('x <- c(1, 2, 6)');
  const shown = await run('cat("mean:"); mean(x)');
  assert.equal(shown.logs.stdout.join(''), 'mean:');
  assert.equal(shown.results[0].text, '[1] 3');
  assert.match((await sandbox.runCode('stop("no")', { language: 'r' })).error.value, /no/);
});

test('java', async () => {
  const run = runIn('java');
  await run('int x = 4; int twice(int n) { return 2 * n; }');
  assert.equal((await run('twice(x)')).text, '8');
  assert.equal((await run('for (int i = 0; i < 2; i++) {\n  System.out.println(i);\n}')).logs.stdout.join(''), '0\n1\n');
  assert.equal((await run('List.of(1, 2)')).text, '[1, 2]');
  const failed = await sandbox.runCode('throw new IllegalStateException("no")', { language: 'java' });
  assert.deepEqual([failed.error.name, failed.error.value], ['java.lang.IllegalStateException', 'no']);
  assert.equal((await sandbox.runCode('int y = "a";', { language: 'java' })).error.name, 'CompileError');
});

// A port of a kernel could be reached by every program in the sandbox, whoever its user is, and from outside.
test('no kernel listens on a port', async () => {
  for (const language of ['python', 'javascript', 'typescript', 'r', 'java']) await sandbox.runCode('1', { language });
  // Of each line of a connection its own address and its state; 0A listens (proc(5), net/tcp).
  const code =
    'while read -r _ own _ state _; do [ "$state" = 0A ] && echo $((16#${own##*:})); done < <(cat /proc/net/tcp{,6}); true';
  const listening = await runIn('bash')(code);
  const ports = listening.logs.stdout.join('').split('\n').filter(Boolean).map(Number);
  assert.deepEqual(ports.filter((port) => port !== 49983 && port !== 49999), []);
  assert.ok(ports.includes(49999), 'the list is one');
});
