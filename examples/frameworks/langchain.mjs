// SPDX-License-Identifier: Apache-2.0
//
// LangChain: node langchain.mjs --scripted
import { AIMessage } from '@langchain/core/messages';
import { createAgent, fakeModel, tool } from 'langchain';
import { z } from 'zod';
import { description, withInterpreter } from './interpreter.mjs';

const scripted = process.argv.includes('--scripted');
if (scripted) console.log('No model is asked: the answers are scripted.');

const script = () =>
  fakeModel()
    .respondWithTools([{ name: 'run_python', args: { code: 'import statistics\nx = [3, 5, 10]' } }])
    .respondWithTools([{ name: 'run_python', args: { code: 'statistics.mean(x)' } }])
    .respond((messages) => new AIMessage(`The mean is ${messages.at(-1).text}.`));

await withInterpreter(async (run) => {
  const runPython = tool(({ code }) => run(code), {
    name: 'run_python',
    description,
    schema: z.object({ code: z.string() }),
  });
  // Your model here: a name as 'openai:gpt-4o-mini', or a chat model of LangChain's.
  const model = scripted ? script() : (process.env.MODEL ?? 'openai:gpt-4o-mini');
  const agent = createAgent({ model, tools: [runPython] });
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'What is the mean of 3, 5 and 10?' }] });
  console.log(messages.at(-1).text);
});
