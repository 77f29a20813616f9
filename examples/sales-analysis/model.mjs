// SPDX-License-Identifier: Apache-2.0
//
// Two models with one function: given the messages so far, the next message of the assistant. The wire is that of chat
// completions with tools, so the scripted one can stand in for any other.

export const runPython = {
  type: 'function',
  function: {
    name: 'run_python',
    description:
      'Runs Python in a context that keeps its variables. pandas and matplotlib are there. The value of the last expression ' +
      'and figures that are shown come back.',
    parameters: { type: 'object', properties: { code: { type: 'string' } }, required: ['code'] },
  },
};

// A model behind a server. Its key is in this process and nowhere else.
export function remoteModel({ baseUrl, key, name }) {
  return async function next(messages) {
    const answer = await fetch(`${baseUrl.replace(/\/$/, '')}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ model: name, messages, tools: [runPython] }),
      signal: AbortSignal.timeout(120_000),
    });
    if (!answer.ok) throw new Error(`the model's server answered ${answer.status}: ${(await answer.text()).slice(0, 500)}`);
    return (await answer.json()).choices[0].message;
  };
}

const kSteps = [
  `import pandas as pd
sales = pd.read_csv("/home/user/sales.csv", parse_dates=["date"])
sales.describe(include="all")`,
  `monthly = sales.groupby(sales.date.dt.to_period("M").dt.to_timestamp()).revenue.sum()
growth = monthly.iloc[-1] / monthly.iloc[0] - 1
regions = sales.groupby("region").revenue.sum().sort_values(ascending=False)
monthly.to_frame()`,
  `import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(8, 4))
axes.plot(monthly.index, monthly.values, label="revenue")
axes.set_title("Revenue by month"); axes.set_xlabel("Month"); axes.set_ylabel("Revenue (EUR)")
plt.show()`,
  `print(f"Revenue changed by {growth:.0%} from {monthly.index[0]:%B} to {monthly.index[-1]:%B} {monthly.index[-1]:%Y}. "
      f"The best month was {monthly.idxmax():%B}; the strongest region was {regions.index[0]} "
      f"with {regions.iloc[0] / regions.sum():.0%} of the revenue.")`,
];

// No model at all: the code that one would write, and a report made of its last output.
export function scriptedModel() {
  let step = 0;
  return async function next(messages) {
    if (step < kSteps.length) {
      const call = { name: 'run_python', arguments: JSON.stringify({ code: kSteps[step] }) };
      return { role: 'assistant', content: null, tool_calls: [{ id: `step-${++step}`, type: 'function', function: call }] };
    }
    const last = messages.filter((message) => message.role === 'tool').at(-1).content;
    return { role: 'assistant', content: `# Sales of the year\n\n${last.trim()}\n` };
  };
}
