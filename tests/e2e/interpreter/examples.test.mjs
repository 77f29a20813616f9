// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const examples = fileURLToPath(new URL('../../../examples/', import.meta.url));
const here = fileURLToPath(new URL('..', import.meta.url));

// A copy of an example, where it finds the packages of this suite.
function withExample(name, work) {
  const folder = mkdtempSync(`${here}node_modules/.example-`);
  cpSync(examples + name, folder, { recursive: true, filter: (path) => !path.includes('node_modules') });
  return Promise.resolve(work(folder)).finally(() => rmSync(folder, { recursive: true, force: true }));
}

const environment = { ...process.env };
delete environment.OPENAI_API_KEY;

function checkResults(folder) {
  assert.match(readFileSync(`${folder}/report.md`, 'utf8'), /Revenue changed by -?\d+%.*strongest region was \w+/s);
  assert.equal(readFileSync(`${folder}/chart.png`).subarray(1, 4).toString(), 'PNG');
}

test('sales-analysis, scripted', () =>
  withExample('sales-analysis', (folder) => {
    const done = spawnSync(process.execPath, ['agent.mjs', '--scripted'], { cwd: folder, env: environment, encoding: 'utf8' });
    assert.equal(done.status, 0, done.stdout + done.stderr);
    assert.match(done.stdout, /No model is asked/);
    checkResults(folder);
  }));

test('sales-analysis, with a model behind a server', () =>
  withExample('sales-analysis', async (folder) => {
    // The scripted model, over the wire: it sees what was said to it, and no key goes into the sandbox.
    const { scriptedModel } = await import(`${folder}/model.mjs`);
    const next = scriptedModel();
    const seen = [];
    const server = createServer(async (request, response) => {
      let text = '';
      for await (const part of request) text += part;
      const body = JSON.parse(text);
      seen.push({ authorization: request.headers.authorization, body });
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ choices: [{ message: await next(body.messages) }] }));
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const child = spawn(process.execPath, ['agent.mjs'], {
      cwd: folder,
      env: { ...environment, OPENAI_API_KEY: 'model-key', OPENAI_BASE_URL: `http://127.0.0.1:${server.address().port}/v1` },
    });
    let said = '';
    child.stdout.on('data', (part) => (said += part));
    child.stderr.on('data', (part) => (said += part));
    const status = await new Promise((resolve) => child.once('close', resolve));
    server.close();
    assert.equal(status, 0, said);
    checkResults(folder);
    assert.ok(seen.length >= 5 && seen.every((each) => each.authorization === 'Bearer model-key'));
    assert.equal(seen[0].body.tools[0].function.name, 'run_python');
  }));

for (const file of ['langchain.mjs', 'ai-sdk.mjs']) {
  test(`frameworks: ${file}, scripted`, () => {
    const options = { cwd: `${examples}frameworks`, env: environment, encoding: 'utf8' };
    const done = spawnSync(process.execPath, [file, '--scripted'], options);
    assert.equal(done.status, 0, done.stdout + done.stderr);
    assert.match(done.stdout, /The mean is 6\./);
  });
}
