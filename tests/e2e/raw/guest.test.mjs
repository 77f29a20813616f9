// SPDX-License-Identifier: Apache-2.0
// What the guest daemon offers beside what the published JavaScript client calls.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Sandbox, eventually, notIn, serviceFetch, template, within } from '../lib/target.mjs';
import { bash, envelope, stream, unary } from '../lib/rpc.mjs';

let sandbox;
before(async () => {
  sandbox = await Sandbox.create(template, { timeoutMs: 600_000 });
});
after(() => sandbox?.kill());

// All events of a command; `take` may stop the reading by returning true.
async function collect(events, take = () => false) {
  const all = [];
  for await (const message of events) {
    all.push(message.event ?? message);
    if (take(all.at(-1), all)) break;
  }
  return all;
}

const dataOf = (event) => Buffer.from(event.data?.stdout ?? event.data?.stderr ?? '', 'base64');
const outcomeOf = async (command, headers) => {
  const all = await collect(stream(sandbox, 'process.Process/Start', envelope(bash(command)), { headers }));
  return all.find((event) => event.end?.outcome)?.end.outcome;
};

test('a broken connection loses no output', { timeout: 60_000 }, async () => {
  const stop = new AbortController();
  const start = envelope(
    bash('for i in $(seq 1 3000); do echo line $i; [ $((i % 500)) = 0 ] && sleep 0.05; done', {
      offsets: true,
    }),
  );
  let pid,
    next = 0n,
    text = '';
  const add = (event) => {
    assert.equal(event.gap, undefined);
    if (!event.data) return;
    const bytes = dataOf(event);
    assert.equal(BigInt(event.data.offset ?? event.offset ?? 0), next);
    next += BigInt(bytes.length);
    text += bytes.toString();
  };
  await collect(stream(sandbox, 'process.Process/Start', start, { stop }), (event) => {
    pid ??= event.start?.pid;
    add(event);
    return text.length > 4_000;
  });
  stop.abort();
  for (let ended = false; !ended; ) {
    const connect = envelope({ process: { pid }, fromOffset: String(next) });
    const goal = text.length + 9_000;
    await collect(stream(sandbox, 'process.Process/Connect', connect), (event) => {
      add(event);
      ended ||= event.end !== undefined;
      return ended || text.length > goal;
    });
  }
  assert.equal(text, Array.from({ length: 3000 }, (_, n) => `line ${n + 1}\n`).join(''));
});

test('output that is gone is told as a gap', { timeout: 60_000 }, async () => {
  const start = envelope(bash('head -c 4000000 /dev/zero | tr "\\0" x; sleep 2', { offsets: true }));
  const all = await collect(
    stream(sandbox, 'process.Process/Start', start),
    (event) => event.end !== undefined,
  );
  const pid = all.find((event) => event.start).start.pid;
  const again = await collect(
    stream(sandbox, 'process.Process/Connect', envelope({ process: { pid }, fromOffset: '0' })),
    (event) => event.end,
  );
  const gap = again.find((event) => event.gap)?.gap;
  assert.ok(gap, JSON.stringify(again.slice(0, 3)).slice(0, 300));
  const kept = again.reduce((sum, event) => sum + dataOf(event).length, 0);
  assert.equal(Number(gap.to) + kept, 4_000_000);
});

test('outcomes are typed and true', { timeout: 60_000 }, async () => {
  assert.equal((await outcomeOf('exit 3')).kind, 'exited');
  assert.deepEqual(await outcomeOf('kill -SEGV $$'), { kind: 'signalled', signal: 11 });
  const all = [];
  for await (const message of stream(sandbox, 'process.Process/Start', envelope(bash('sleep 300')))) {
    all.push(message.event ?? message);
    if (message.event?.start) {
      await unary(sandbox, 'process.Process/SendSignal', {
        process: { pid: message.event.start.pid },
        signal: 'SIGNAL_SIGKILL',
      });
    }
  }
  assert.equal(all.find((event) => event.end?.outcome)?.end.outcome.kind, 'killed');
});

test('too much memory is told as such, and the sandbox lives on', { ...notIn('gvisor'), timeout: 60_000 }, async () => {
  const outcome = await outcomeOf('python3 -c "x = bytearray(8 << 30); print(len(x))"');
  assert.ok(outcome.kind === 'out_of_memory' || outcome.kind === 'exited', JSON.stringify(outcome));
  const touched = await outcomeOf('python3 -c "x = []\nwhile True: x.append(b\'y\' * (1 << 20))"');
  assert.equal(touched.kind, 'out_of_memory');
  assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n');
});

test('too many processes fail inside and leave the sandbox usable', { timeout: 60_000 }, async () => {
  const out = await sandbox.commands
    .run('for i in $(seq 1 2000); do sleep 20 & done 2>/dev/null; echo tried', { timeoutMs: 30_000 })
    .catch((e) => e);
  assert.ok(/tried/.test(out.stdout) || out.exitCode !== 0, String(out));
  await eventually(
    'a command works again',
    async () => {
      await sandbox.commands.run('pkill sleep; true', { user: 'root' });
      return (await sandbox.commands.run('echo fine')).stdout === 'fine\n';
    },
    40_000,
  );
});

test('input as a client stream', async () => {
  const start = stream(
    sandbox,
    'process.Process/Start',
    envelope({ process: { cmd: '/bin/cat', args: [] }, stdin: true }),
  );
  const first = (await start.next()).value;
  const pid = first.event.start.pid;
  const parts = ['one ', 'two ', 'three'].map((text) =>
    envelope({ data: { input: { stdin: Buffer.from(text).toString('base64') } } }),
  );
  const body = Buffer.concat([envelope({ start: { process: { pid } } }), ...parts]);
  for await (const message of stream(sandbox, 'process.Process/StreamInput', body))
    assert.equal(message.end?.error, undefined);
  await unary(sandbox, 'process.Process/CloseStdin', { process: { pid } });
  const rest = await within(10_000, 'the end of cat', collect(start));
  assert.equal(Buffer.concat(rest.map(dataOf)).toString(), 'one two three');
});

test('input to a process that reads late arrives whole', { timeout: 60_000 }, async () => {
  const handle = await sandbox.commands.run('sleep 12; wc -c', { background: true, stdin: true });
  await sandbox.commands.sendStdin(handle.pid, 'a'.repeat(300_000));
  await sandbox.commands.closeStdin(handle.pid);
  assert.equal((await within(20_000, 'the end', handle.wait())).stdout, '300000\n');
});

test('watching by polling, as the Python client does', async () => {
  await sandbox.files.makeDir('polled');
  const made = await unary(sandbox, 'filesystem.Filesystem/CreateWatcher', {
    path: '/home/user/polled',
    recursive: true,
  });
  assert.equal(made.status, 200, JSON.stringify(made.body));
  const { watcherId } = made.body;
  await sandbox.files.write('polled/sub/file.txt', 'x');
  const events = [];
  await eventually(
    'the events',
    async () => {
      events.push(
        ...((await unary(sandbox, 'filesystem.Filesystem/GetWatcherEvents', { watcherId })).body.events ??
          []),
      );
      return events.some((event) => event.name === 'sub' && event.type === 'EVENT_TYPE_CREATE');
    },
    5_000,
  );
  assert.equal((await unary(sandbox, 'filesystem.Filesystem/RemoveWatcher', { watcherId })).status, 200);
  assert.equal((await unary(sandbox, 'filesystem.Filesystem/GetWatcherEvents', { watcherId })).status, 404);
});

test('files can be put together', async () => {
  await sandbox.files.write([
    { path: 'part1', data: 'first ' },
    { path: 'part2', data: 'second' },
  ]);
  const answer = await serviceFetch(sandbox, 49983, '/files/compose', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-access-token': sandbox.envdAccessToken },
    body: JSON.stringify({
      source_paths: ['/home/user/part1', '/home/user/part2'],
      destination: '/home/user/whole',
    }),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  assert.equal(await sandbox.files.read('whole'), 'first second');
});

test('metrics and environment of the daemon', async () => {
  const get = (path) =>
    serviceFetch(sandbox, 49983, path, { headers: { 'x-access-token': sandbox.envdAccessToken } });
  const metrics = await (await get('/metrics')).json();
  for (const key of ['ts', 'cpu_count', 'cpu_used_pct', 'mem_total', 'mem_used', 'disk_used', 'disk_total']) {
    assert.equal(typeof metrics[key], 'number', key);
  }
  assert.equal(typeof (await (await get('/envs')).json()), 'object');
  assert.equal((await serviceFetch(sandbox, 49983, '/metrics')).status, 401);
});

test('snake case and unknown fields are accepted', async () => {
  const answer = await unary(sandbox, 'filesystem.Filesystem/ListDir', {
    path: '/',
    depth: 1,
    future_field: { a: 1 },
  });
  assert.equal(answer.status, 200);
  assert.ok(answer.body.entries.some((entry) => entry.name === 'home'));
});

test('errors have the code of the protocol', async () => {
  const cases = [
    ['filesystem.Filesystem/Stat', { path: '/no/such' }, 404, 'not_found'],
    ['filesystem.Filesystem/ListDir', { path: '/etc/hostname' }, 400, 'invalid_argument'],
    ['filesystem.Filesystem/MakeDir', { path: '/tmp' }, 409, 'already_exists'],
    ['process.Process/SendSignal', { process: { pid: 999999 }, signal: 'SIGNAL_SIGKILL' }, 404, 'not_found'],
  ];
  for (const [method, message, status, code] of cases) {
    const answer = await unary(sandbox, method, message);
    assert.equal(answer.status, status, `${method}: ${JSON.stringify(answer.body)}`);
    assert.equal(answer.body.code, code, method);
  }
});
