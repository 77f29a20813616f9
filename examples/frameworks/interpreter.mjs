// SPDX-License-Identifier: Apache-2.0
//
// What both frameworks share: one sandbox, and code that runs in it.
import { Sandbox } from '@e2b/code-interpreter';

export const description =
  'Runs Python in a context that keeps its variables, and gives what it printed and the value of the last expression.';

// Calls `work` with a function that runs code, and removes the sandbox whatever happens.
export async function withInterpreter(work) {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000 });
  try {
    return await work(async (code) => {
      const { logs, results, error } = await sandbox.runCode(code, { timeoutMs: 60_000 });
      const parts = [...logs.stdout, ...logs.stderr, ...results.map((result) => result.text ?? '')];
      if (error) parts.push(`${error.name}: ${error.value}`);
      return parts.filter(Boolean).join('\n') || '(no output)';
    });
  } finally {
    await sandbox.kill();
  }
}
