// SPDX-License-Identifier: Apache-2.0
//
// An agent that analyses sales: node agent.mjs [--scripted] [--out DIR]. README.md says how to start it.
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Sandbox } from '@e2b/code-interpreter';
import { remoteModel, scriptedModel } from './model.mjs';

const kMaxSteps = 12;
const kMaxTold = 4000;
const kTask =
  'The file /home/user/sales.csv has the sales of a year. Analyse the trend step by step with the tool run_python, show one ' +
  'chart of it, and then answer with a short report in Markdown.';

const { values: options } = parseArgs({
  options: { scripted: { type: 'boolean', default: false }, out: { type: 'string', default: '.' } },
});

function chooseModel() {
  if (options.scripted) {
    console.log('No model is asked: the steps are scripted.');
    return scriptedModel();
  }
  const { OPENAI_API_KEY: key, OPENAI_BASE_URL: baseUrl = 'https://api.openai.com/v1', MODEL: name = 'gpt-4o-mini' } =
    process.env;
  if (!key) throw new Error('OPENAI_API_KEY is not set; without a model use --scripted');
  return remoteModel({ baseUrl, key, name });
}

// What the model is told of a run. Images are kept here and only named to it.
function tell(execution, charts) {
  const parts = [...execution.logs.stdout, ...execution.logs.stderr.map((text) => `stderr: ${text}`)];
  for (const result of execution.results) {
    if (result.png) {
      charts.push(result.png);
      parts.push(`[a chart${result.chart ? ` of type ${result.chart.type}` : ''} was shown]`);
    } else if (result.text) {
      parts.push(result.text);
    }
  }
  if (execution.error) parts.push(`${execution.error.name}: ${execution.error.value}`);
  const text = parts.join('\n') || '(no output)';
  return text.length > kMaxTold ? `${text.slice(0, kMaxTold)}\n… cut` : text;
}

async function runTool(sandbox, call, charts) {
  let code;
  try {
    ({ code } = JSON.parse(call.function.arguments));
  } catch {
    return 'the arguments are not JSON with a field "code"';
  }
  if (call.function.name !== 'run_python' || typeof code !== 'string') return 'there is only run_python, with "code"';
  console.log(`\n--- code\n${code}`);
  const told = tell(await sandbox.runCode(code, { timeoutMs: 60_000 }), charts);
  console.log(`--- result\n${told}`);
  return told;
}

async function analyse(sandbox, model) {
  const messages = [{ role: 'user', content: kTask }];
  const charts = [];
  for (let step = 0; step < kMaxSteps; ++step) {
    const message = await model(messages);
    messages.push(message);
    if (!message.tool_calls?.length) return { report: message.content ?? '', charts };
    for (const call of message.tool_calls)
      messages.push({ role: 'tool', tool_call_id: call.id, content: await runTool(sandbox, call, charts) });
  }
  throw new Error(`no report after ${kMaxSteps} steps`);
}

const model = chooseModel();
const sandbox = await Sandbox.create({ timeoutMs: 300_000, metadata: { task: 'sales-analysis' } });
try {
  await sandbox.files.write('/home/user/sales.csv', await readFile(new URL('sales.csv', import.meta.url), 'utf8'));
  const { report, charts } = await analyse(sandbox, model);
  await writeFile(path.join(options.out, 'report.md'), report);
  if (charts.length > 0) await writeFile(path.join(options.out, 'chart.png'), Buffer.from(charts.at(-1), 'base64'));
  console.log(`\n${report}`);
} finally {
  await sandbox.kill();
}
