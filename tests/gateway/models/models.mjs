// SPDX-License-Identifier: Apache-2.0
// Asks scripted models with the official clients and streams their answers. Runs inside a sandbox:
//   node models.mjs ROUND    where ROUND is "usual" (each client's own address) or "svc" (the reverse front)
// Prints one line of JSON: what each client heard. The server ends an answer only when it has heard /go, which is
// asked for at the first piece: an answer that does not come piece by piece does not come at all.
const heard = {};

async function collect(name, pieces) {
  let text = "";
  for await (const piece of pieces) {
    if (!piece) continue;
    if (text === "") await fetch("http://allowed.example.com/go");
    text += piece;
  }
  heard[name] = text;
}

async function* anthropic(options, name) {
  const { default: Anthropic } = await import(name);
  const client = new Anthropic({ maxRetries: 0, ...options });
  const stream = await client.messages.create({
    model: "scripted", max_tokens: 64, stream: true, messages: [{ role: "user", content: "hello" }],
  });
  for await (const event of stream) if (event.type === "content_block_delta") yield event.delta.text;
}

async function* openai(options, name) {
  const { default: OpenAI } = await import(name);
  const client = new OpenAI({ maxRetries: 0, ...options });
  const stream = await client.chat.completions.create({
    model: "scripted", stream: true, messages: [{ role: "user", content: "hello" }],
  });
  for await (const chunk of stream) yield chunk.choices[0]?.delta?.content;
}

const svc = process.argv[2] === "svc";
const apiKey = process.env.ATOLL_TOKEN;
for (const age of ["now", "before"]) {
  const one = svc ? { baseURL: `${process.env.ATOLL_SVC}/anthropic`, apiKey } : {};
  await collect(`anthropic-${age}`, anthropic(one, `anthropic-${age}`));
  const other = svc ? { baseURL: `${process.env.ATOLL_SVC}/openai`, apiKey } : {};
  await collect(`openai-${age}`, openai(other, `openai-${age}`));
}
console.log(JSON.stringify(heard));
