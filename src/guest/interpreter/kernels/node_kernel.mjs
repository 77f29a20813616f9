// SPDX-License-Identifier: Apache-2.0
// Runs JavaScript and TypeScript for the code interpreter: node_kernel.mjs COMMANDS EVENTS INTERRUPTS
// [typescript] (README.md has the protocol). Each piece of code becomes one async function, so that `await` works everywhere;
// what it declares at its top level is moved out of the function and lives on.
import { execFile } from 'node:child_process';
import { randomFillSync } from 'node:crypto';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { pathToFileURL } from 'node:url';
import { promisify, inspect } from 'node:util';
import vm from 'node:vm';
import { Worker } from 'node:worker_threads';

const [commandsPath, eventsPath, interruptsPath, flavour] = process.argv.slice(2);
const here = createRequire(import.meta.url);
const kAcorn = ['acorn', '/usr/share/nodejs/acorn'];
const kEsbuild = '/usr/bin/esbuild';
const kParse = { ecmaVersion: 'latest', sourceType: 'module', allowAwaitOutsideFunction: true, allowHashBang: true };
const kPieces = 1 << 20;

function load(names) {
  for (const name of names) {
    try {
      return here(name);
    } catch {
      // the next one
    }
  }
  throw new Error(`none of ${names.join(', ')} is installed`);
}
const acorn = load(kAcorn);

// ---- whose turn the main thread is

// An interrupt may throw this thread out of the code at any point, but never out of the kernel (node_interrupts.mjs has
// what the numbers mean).
const shared = new SharedArrayBuffer(8);
const state = new Int32Array(shared);
const enterCode = (call) => Atomics.store(state, 0, call);
// Gives the call whose code ran; 0: none, the kernel is in its own already.
function leaveCode() {
  const call = Atomics.load(state, 0);
  if (call > 0 && Atomics.compareExchange(state, 0, call, 0) === call) return call;
  while (Atomics.load(state, 0) < 0); // until it is thrown out
  return 0;
}

// ---- events and output

const events = fs.openSync(eventsPath, 'w');
function say(event) {
  const bytes = Buffer.from(JSON.stringify(event) + '\n');
  const call = leaveCode();
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(events, bytes, at, Math.min(kPieces, bytes.length - at));
  if (call > 0) enterCode(call);
}

// What the code prints is in its pipe before it goes on: nothing piles up in here while a client is slow, the order of
// output and events is kept, and there is nothing that an interrupt could leave half done.
function printTo(fd, stream) {
  stream._handle?.setBlocking?.(true);
  stream.write = (what, encoding, done) => {
    const bytes = typeof what === 'string' ? Buffer.from(what, typeof encoding === 'string' ? encoding : 'utf8') : what;
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(fd, bytes, at);
    const told = typeof encoding === 'function' ? encoding : done;
    if (told) process.nextTick(told);
    return true;
  };
}
printTo(1, process.stdout);
printTo(2, process.stderr);

// ---- from source to one async function

// Names that a pattern declares.
function namesOf(pattern, out) {
  if (!pattern) return;
  if (pattern.type === 'Identifier') out.push(pattern.name);
  else if (pattern.type === 'ObjectPattern') pattern.properties.forEach((each) => namesOf(each.value ?? each.argument, out));
  else if (pattern.type === 'ArrayPattern') pattern.elements.forEach((each) => namesOf(each, out));
  else if (pattern.type === 'AssignmentPattern') namesOf(pattern.left, out);
  else if (pattern.type === 'RestElement') namesOf(pattern.argument, out);
}

function importStatement(node) {
  const from = `await __atoll_import(${JSON.stringify(node.source.value)})`;
  if (node.specifiers.length === 0) return { text: `${from};`, names: [] };
  const names = node.specifiers.map((each) => each.local.name);
  const parts = node.specifiers.map((each) => {
    if (each.type === 'ImportNamespaceSpecifier') return `${each.local.name} = __atoll_module;`;
    const key = each.type === 'ImportDefaultSpecifier' ? 'default' : (each.imported.name ?? each.imported.value);
    return `${each.local.name} = __atoll_pick(__atoll_module, ${JSON.stringify(key)}, ${JSON.stringify(node.source.value)});`;
  });
  return { text: `{ const __atoll_module = ${from}; ${parts.join(' ')} }`, names };
}

function variables(source, node, names) {
  const parts = [];
  for (const each of node.declarations) {
    namesOf(each.id, names);
    const target = source.slice(each.id.start, each.id.end);
    if (each.init) parts.push(`(${target} = ${source.slice(each.init.start, each.init.end)})`);
    else if (node.kind !== 'var') parts.push(`(${target} = undefined)`);
  }
  return parts.length > 0 ? `${parts.join(', ')};` : ';';
}

// One top-level statement as it stands in the function. `first`: what is moved to the function's beginning.
function rewrite(source, node, names, first) {
  const text = (what) => source.slice(what.start, what.end);
  switch (node.type) {
    case 'ImportDeclaration': {
      const made = importStatement(node);
      names.push(...made.names);
      first.push(made.text);
      return '';
    }
    case 'ExportNamedDeclaration':
      return node.declaration ? rewrite(source, node.declaration, names, first) : '';
    case 'ExportDefaultDeclaration':
      return node.declaration.id ? rewrite(source, node.declaration, names, first) : `(${text(node.declaration)});`;
    case 'ExportAllDeclaration':
      return '';
    case 'FunctionDeclaration':
      names.push(node.id.name);
      first.push(`${node.id.name} = ${text(node)};`);
      return '';
    case 'ClassDeclaration':
      names.push(node.id.name);
      return `${node.id.name} = ${text(node)};`;
    case 'VariableDeclaration':
      return variables(source, node, names);
    default:
      return text(node);
  }
}

// The value of the last statement when it is an expression.
function lastExpression(source, node) {
  if (node?.type === 'ExpressionStatement' && !node.directive)
    return `return { value: await (${source.slice(node.expression.start, node.expression.end)}) };`;
  if (node?.type === 'ExpressionStatement') return `return { value: ${source.slice(node.expression.start, node.expression.end)} };`;
  return null;
}

function compile(source) {
  const program = acorn.parse(source, kParse);
  const names = [];
  const first = [];
  const body = [];
  let line = 1;
  program.body.forEach((node, index) => {
    // Statements keep their lines, so that traces name the lines of the code.
    const begins = 1 + (source.slice(0, node.start).match(/\n/g)?.length ?? 0);
    const gap = '\n'.repeat(Math.max(0, begins - line));
    const last = index === program.body.length - 1 ? lastExpression(source, node) : null;
    const text = gap + (last ?? rewrite(source, node, names, first));
    line += text.match(/\n/g)?.length ?? 0;
    body.push(text);
  });
  const declared = names.length > 0 ? `var ${[...new Set(names)].join(', ')}; ` : '';
  return `${declared}(async () => { ${first.map((each) => each.replace(/\n/g, ' \n')).join(' ')} ${body.join(' ')}\n})()`;
}

async function withoutTypes(source) {
  const options = { compilerOptions: { preserveValueImports: true, verbatimModuleSyntax: true, target: 'esnext' } };
  const run = promisify(execFile);
  const tsconfig = `--tsconfig-raw=${JSON.stringify(options)}`;
  const flags = ['--loader=ts', '--format=esm', '--target=esnext', '--log-level=error', tsconfig];
  const pending = run(kEsbuild, flags, { maxBuffer: 64 << 20 });
  pending.child.stdin.end(source);
  return (await pending).stdout;
}

async function prepare(source) {
  if (flavour !== 'typescript') {
    try {
      return compile(source);
    } catch (error) {
      if (!(error instanceof SyntaxError) || !fs.existsSync(kEsbuild)) throw error;
      // Types in JavaScript are taken off, too; if that is not it, the first error says more.
      const plain = await withoutTypes(source).catch(() => null);
      if (plain === null) throw error;
      return compile(plain);
    }
  }
  try {
    return compile(await withoutTypes(source));
  } catch (error) {
    if (error.stderr) throw new SyntaxError(error.stderr.trim());
    throw error;
  }
}

// ---- the world of the code

const base = () => pathToFileURL(process.cwd() + '/code.mjs').href;
async function importFrom(name) {
  const relative = name.startsWith('./') || name.startsWith('../') || name.startsWith('/');
  if (relative) return import(new URL(name, base()).href);
  return import(await import.meta.resolve(name, base()));
}

function pick(module, key, source) {
  if (key in module) return module[key];
  // A module of the old kind whose names could not be told before it ran.
  const whole = module.default ?? {};
  if (key !== 'default' && key in Object(whole)) return whole[key];
  throw new SyntaxError(`The requested module '${source}' does not provide an export named '${key}'`);
}

function hidden(name, value) {
  Object.defineProperty(globalThis, name, { value, enumerable: false, configurable: true, writable: true });
}
hidden('__atoll_import', importFrom);
hidden('__atoll_pick', pick);
hidden('require', createRequire(process.cwd() + '/code.js'));
hidden('module', { exports: {} });
hidden('exports', globalThis.module.exports);
// Shows a value, or a bundle {"text/html": "…"}, in the middle of the code.
hidden('display', (value) => say({ result: bundle(value), main: false }));

function bundle(value) {
  const types = value && typeof value === 'object' ? Object.keys(value) : [];
  if (types.length > 0 && types.every((type) => /^[a-z]+\/[a-z0-9.+-]+$/.test(type))) return value;
  const out = { 'text/plain': inspect(value, { depth: 4, maxArrayLength: 1000 }) };
  if (typeof value === 'string') out['text/plain'] = value;
  if (value && typeof value === 'object') {
    const name = Object.getPrototypeOf(value)?.constructor?.name;
    if (Array.isArray(value) || name === 'Object') {
      try {
        out['application/json'] = JSON.parse(JSON.stringify(value));
      } catch {
        // a circle, or a BigInt: it is shown as text only
      }
    }
  }
  return out;
}

// ---- running

// The signal is for what the code has started.
const heedless = () => {};
process.on('uncaughtException', (error) => process.stderr.write(`Uncaught ${inspect(error)}\n`));
process.on('unhandledRejection', (error) => process.stderr.write(`Unhandled rejection: ${inspect(error)}\n`));

// Math.random() of a copy of a sandbox must not go on as in the other one, and its generator cannot be set.
function drawAnew() {
  const words = new Uint32Array(256);
  let at = words.length;
  Math.random = function random() {
    if (at === words.length) {
      randomFillSync(words);
      at = 0;
    }
    return (words[at++] * 2 ** 21 + (words[at++] >>> 11)) / 2 ** 53;
  };
}

let globals = {};
function setVariables(command) {
  const [known, named] = [globals, command.globals].map((each) => each.E2B_SANDBOX_ID);
  if (known !== undefined && known !== named) drawAnew();
  for (const name of Object.keys(globals)) if (!(name in command.globals)) delete process.env[name];
  Object.assign(process.env, command.globals, command.call);
  globals = command.globals;
}
function takeBack(command) {
  for (const name of Object.keys(command.call)) {
    if (name in globals) process.env[name] = globals[name];
    else delete process.env[name];
  }
}

function interrupted() {
  const error = new Error('the code was interrupted');
  error.name = 'Interrupted';
  return error;
}

function failure(error) {
  if (error instanceof Error || (error && typeof error === 'object' && 'stack' in error)) {
    const name = String(error.name ?? 'Error');
    // What lies below the code in the stack is this program.
    const trace = String(error.stack ?? '').split('\n').filter((line) => !/node_kernel|node:vm|node:internal|\/acorn\//.test(line));
    return { name, value: String(error.message ?? ''), traceback: trace.join('\n') };
  }
  return { name: 'Error', value: inspect(error), traceback: inspect(error) };
}

let current = null; // the call that runs
let count = 0;
let unwanted = 0; // the last call that was interrupted
const waiting = [];

// In the code's turn, since values may have code of their own that shows them.
function shown(outcome) {
  return outcome && outcome.value !== undefined ? { result: bundle(outcome.value), main: true } : null;
}

async function run(call) {
  const text = await prepare(call.command.code);
  const script = new vm.Script(text, { filename: `code-${call.number}.js`, importModuleDynamically: (name) => importFrom(name) });
  if (call.ended) return null;
  enterCode(call.number);
  try {
    return shown(await script.runInThisContext());
  } catch (error) {
    return { error: failure(error) };
  }
}

// Once for each call. What the code has begun may go on beside later calls: JavaScript cannot end what waits.
function end(call, event) {
  if (call.ended) return;
  leaveCode();
  call.ended = true;
  if (event) say(event);
  takeBack(call.command);
  Atomics.store(state, 1, call.number);
  say({ done: true });
  current = null;
  next();
}

function next() {
  if (current !== null || waiting.length === 0) return;
  const call = { number: ++count, command: waiting.shift(), ended: false };
  current = call;
  if (!process.listeners('SIGINT').includes(heedless)) process.on('SIGINT', heedless);
  setVariables(call.command);
  if (unwanted === call.number) {
    end(call, { error: failure(interrupted()) });
    return;
  }
  run(call).then(
    (event) => end(call, event),
    (error) => end(call, { error: failure(error) }),
  );
}

const interrupts = new Worker(new URL('node_interrupts.mjs', import.meta.url), {
  workerData: { state: shared, interrupts: interruptsPath },
  resourceLimits: { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 16 },
});
interrupts.on('message', (number) => {
  unwanted = number;
  if (current?.number === number) end(current, { error: failure(interrupted()) });
});
interrupts.unref();

const commandsPipe = fs.openSync(commandsPath, fs.constants.O_RDWR | fs.constants.O_NONBLOCK);
const commands = new net.Socket({ fd: commandsPipe, readable: true, writable: false });
let pending = Buffer.alloc(0);
commands.on('data', (block) => {
  pending = Buffer.concat([pending, block]);
  for (let end; (end = pending.indexOf(10)) >= 0; pending = pending.subarray(end + 1))
    waiting.push(JSON.parse(pending.subarray(0, end).toString()));
  next();
});
process.on('SIGINT', heedless);
say({ ready: true });
