// SPDX-License-Identifier: Apache-2.0
//
// Vercel AI SDK: node ai-sdk.mjs --scripted
import { generateText, isStepCount, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';
import { description, withInterpreter } from './interpreter.mjs';

const scripted = process.argv.includes('--scripted');
if (scripted) console.log('No model is asked: the answers are scripted.');

// A model that asks for two runs and reports the result of the second.
function script() {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const call = (id, code) => ({
    content: [{ type: 'tool-call', toolCallId: id, toolName: 'runPython', input: JSON.stringify({ code }) }],
    finishReason: { unified: 'tool-calls', raw: 'tool-calls' },
    usage,
    warnings: [],
  });
  const answers = [() => call('a', 'import statistics\nx = [3, 5, 10]'), () => call('b', 'statistics.mean(x)')];
  answers.push(({ prompt }) => ({
    content: [{ type: 'text', text: `The mean is ${prompt.at(-1).content[0].output.value}.` }],
    finishReason: { unified: 'stop', raw: 'stop' },
    usage,
    warnings: [],
  }));
  return new MockLanguageModelV4({ doGenerate: async (options) => answers.shift()(options) });
}

await withInterpreter(async (run) => {
  const runPython = tool({
    description,
    inputSchema: z.object({ code: z.string() }),
    execute: ({ code }) => run(code),
  });
  // Your model here: what a provider of the AI SDK gives, or the name of one behind its gateway.
  const model = scripted ? script() : process.env.MODEL;
  const { text } = await generateText({
    model,
    tools: { runPython },
    stopWhen: isStepCount(8),
    prompt: 'What is the mean of 3, 5 and 10?',
  });
  console.log(text);
});
