// SPDX-License-Identifier: Apache-2.0
// The official OpenAI client for JavaScript against a running server: models, chat, stream, usage, a clear error, cancel.
// usage: node openai_node.mjs BASE_URL
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.argv[2], apiKey: 'none', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const ask = (content, more = {}) => ({ model, messages: [{ role: 'user', content }], ...more });
const counted = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i).join(' ');

const answer = await client.chat.completions.create(ask('count from 3 to 40'));
assert.equal(answer.choices[0].message.content, counted(3, 40));
assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);

let text = '';
let usage = null;
for await (const chunk of await client.chat.completions.create(
  ask('count from 5 to 20', { stream: true, stream_options: { include_usage: true } }))) {
  text += chunk.choices[0]?.delta?.content ?? '';
  usage = chunk.usage ?? usage;
}
assert.equal(text, counted(5, 20));
assert.ok(usage.completion_tokens > 0);

await assert.rejects(client.chat.completions.create(ask('hi', { temperature: 9 })), (error) => {
  assert.equal(error.status, 400);
  assert.equal(error.param, 'temperature');
  assert.match(error.message, /temperature/);
  return true;
});

const stream = await client.chat.completions.create(ask('count from 1 to 300', { stream: true, max_tokens: 1400 }));
let seen = 0;
for await (const chunk of stream) {
  seen += chunk.choices.length;
  if (seen > 5) stream.controller.abort();
}
assert.ok(seen > 5 && seen < 200);

const completion = await client.completions.create({ model, prompt: 'count', max_tokens: 4 });
assert.equal(completion.usage.completion_tokens <= 4, true);
console.log('openai (npm): models, chat, stream, usage, error, cancel, completion');
