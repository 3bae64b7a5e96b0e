// SPDX-License-Identifier: Apache-2.0
// The `openai` npm package.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { baseUrl, encoder, model, run } from "./checks.mjs";

const client = new OpenAI({ baseURL: baseUrl + "/v1", apiKey: "unused", maxRetries: 0, timeout: 30000 });
const ask = {
  model,
  messages: [{ role: "user", content: "What does the curlew eat?" }],
  temperature: 0,
  max_completion_tokens: 48,
};
const weather = {
  name: "get_weather",
  description: "The weather of a city on a day",
  parameters: {
    type: "object",
    required: ["city", "day"],
    properties: { city: { type: "string" }, day: { type: "string" } },
  },
};

async function text(stream) {
  let joined = "";
  for await (const chunk of stream) joined += chunk.choices[0]?.delta?.content ?? "";
  return joined;
}

const checks = {
  async chat() {
    const answer = await client.chat.completions.create(ask);
    assert.ok(answer.choices[0].message.content.trim());
    assert.equal(answer.choices[0].finish_reason, "stop");
  },
  async stream() {
    const whole = (await client.chat.completions.create(ask)).choices[0].message.content;
    assert.equal(await text(await client.chat.completions.create({ ...ask, stream: true })), whole);
    const runner = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
    assert.equal(await runner.finalContent(), whole);
    assert.ok((await runner.totalUsage()).completion_tokens > 0);
  },
  async "stream, tools"() {
    const messages = [{ role: "user", content: "What is the weather in Wrenmouth today?" }];
    const tools = [{ type: "function", function: weather }];
    const runner = client.chat.completions.stream({ ...ask, messages, tools });
    const call = (await runner.finalChatCompletion()).choices[0].message.tool_calls[0];
    assert.equal(call.function.name, "get_weather");
    assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)).sort(), ["city", "day"]);
  },
  async "json_schema"() {
    const properties = { name: { type: "string" } };
    const schema = { type: "object", required: ["name"], additionalProperties: false, properties };
    const answer = await client.chat.completions.create({
      ...ask,
      max_completion_tokens: 200,
      response_format: { type: "json_schema", json_schema: { name: "bird", strict: true, schema } },
    });
    assert.deepEqual(Object.keys(JSON.parse(answer.choices[0].message.content)), ["name"]);
  },
  async responses() {
    const body = { model, input: ask.messages[0].content, temperature: 0, max_output_tokens: 48, store: false };
    const whole = await client.responses.create(body);
    assert.equal(whole.status, "completed");
    let joined = "";
    for await (const event of await client.responses.create({ ...body, stream: true })) {
      if (event.type === "response.output_text.delta") joined += event.delta;
    }
    assert.equal(joined, whole.output_text);
  },
  async embeddings() {
    const input = ["one", "two"];
    const decoded = await client.embeddings.create({ model: encoder, input }); // the package asks for base64
    const floats = await client.embeddings.create({ model: encoder, input, encoding_format: "float" });
    const rounded = floats.data.map((row) => row.embedding.map(Math.fround));
    assert.deepEqual(decoded.data.map((row) => row.embedding.map(Math.fround)), rounded);
  },
  async cancel() {
    const abort = new AbortController();
    const stream = await client.chat.completions.create(
      { ...ask, max_completion_tokens: 900, ignore_eos: true, stream: true },
      { signal: abort.signal },
    );
    for await (const _ of stream) abort.abort();
    assert.ok(abort.signal.aborted);
    assert.ok((await client.chat.completions.create(ask)).choices[0].message.content);
  },
  async errors() {
    const refused = (changes) =>
      client.chat.completions.create({ ...ask, ...changes }).then(
        () => null,
        (error) => error,
      );
    const bad = await refused({ temperature: -1 });
    assert.ok(bad instanceof OpenAI.BadRequestError);
    assert.deepEqual([bad.param, bad.code], ["temperature", "INVALID_FIELD"]);
    assert.ok((await refused({ model: "nothing" })) instanceof OpenAI.NotFoundError);
  },
};

await run(checks);
