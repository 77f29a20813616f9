// SPDX-License-Identifier: Apache-2.0
// A reporter for node --test: one JSON line per test, for run.mjs.
function reason(error) {
  const cause = error?.cause ?? error;
  return String(cause?.stack ?? cause?.message ?? cause).slice(0, 4000);
}

export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details?.type === 'suite') continue;
    const skipped = data.skip !== undefined || data.todo !== undefined;
    const outcome = type === 'test:fail' ? 'failed' : skipped ? 'skipped' : 'passed';
    const why =
      type === 'test:fail' ? reason(data.details?.error) : typeof data.skip === 'string' ? data.skip : '';
    yield JSON.stringify({ outcome, name: data.name, ms: Math.round(data.details?.duration_ms ?? 0), why }) +
      '\n';
  }
}
