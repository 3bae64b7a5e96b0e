// SPDX-License-Identifier: Apache-2.0
// The AI SDK (`ai`) with each provider that speaks one of the server's APIs: whole and streamed texts, steps with a tool,
// objects.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateObject, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { baseUrl, encoder, model, run } from "./checks.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false; // of options that an API does not have
const baseURL = baseUrl + "/v1";
const compatible = createOpenAICompatible({ name: "dunlin", baseURL, includeUsage: true, supportsStructuredOutputs: true });
const anthropic = createAnthropic({ baseURL, apiKey: "unused" });
const openai = createOpenAI({ baseURL, apiKey: "unused" });
const models = {
  "openai-compatible": compatible(model),
  anthropic: anthropic(model),
  "openai chat": openai.chat(model),
  "openai responses": openai.responses(model),
};
// Options that the providers turn into members which change no answer here.
const providerOptions = {
  dunlin: { textVerbosity: "low" },
  openai: { store: true, textVerbosity: "low", user: "someone" },
  anthropic: { cacheControl: { type: "ephemeral" } },
};
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const weather = tool({
  description: "Get the weather in a city",
  inputSchema: jsonSchema(city),
  execute: async ({ city }) => ({ city, sky: "sunny", temperature_c: 21 }),
});
const asking = (chosen) => ({
  model: chosen,
  prompt: "What is the weather in Lisbon?",
  temperature: 0,
  maxRetries: 0,
  tools: { get_weather: weather },
  stopWhen: stepCountIs(3),
});

function textChecks(name, chosen) {
  // No output limit: the anthropic provider asks for 4,096 tokens then, which is more than the context.
  const ask = { model: chosen, prompt: "What does the curlew eat?", temperature: 0, maxRetries: 0, providerOptions };
  return {
    async [`${name}: generateText`]() {
      const whole = await generateText({ ...ask, system: "You answer about Wrenmouth." });
      assert.ok(whole.text.trim());
      assert.equal(whole.finishReason, "stop");
      assert.ok(whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0);
      assert.equal((await generateText({ ...ask, maxOutputTokens: 2 })).finishReason, "length");
    },
    async [`${name}: streamText`]() {
      const whole = await generateText(ask);
      const streamed = streamText({ ...ask, onError: () => {} });
      let joined = "";
      for await (const part of streamed.fullStream) {
        if (part.type === "error") throw part.error;
        if (part.type === "text-delta") joined += part.text;
      }
      assert.equal(joined, whole.text);
      assert.equal(await streamed.finishReason, "stop");
      assert.equal((await streamed.usage).outputTokens, whole.usage.outputTokens);
    },
  };
}

function checkSteps(steps, text) {
  assert.deepEqual(
    steps.map((step) => step.finishReason),
    ["tool-calls", "stop"],
  );
  assert.deepEqual([steps[0].toolCalls[0].toolName, steps[0].toolCalls[0].input], ["get_weather", { city: "Lisbon" }]);
  assert.equal(steps[0].toolResults[0].output.sky, "sunny");
  assert.match(text, /sunny/);
}

function toolChecks(name, chosen) {
  const ask = { model: chosen, temperature: 0, maxRetries: 0 };
  return {
    async [`${name}: tools`]() {
      const whole = await generateText(asking(chosen));
      checkSteps(whole.steps, whole.text);
    },
    async [`${name}: tools, streamed`]() {
      const streamed = streamText({ ...asking(chosen), onError: () => {} });
      for await (const part of streamed.fullStream) if (part.type === "error") throw part.error;
      checkSteps(await streamed.steps, await streamed.text);
    },
    async [`${name}: generateObject`]() {
      const short = { ...city, properties: { city: { type: "string", maxLength: 12 } } };
      const { object } = await generateObject({ ...ask, prompt: "Name a city.", schema: jsonSchema(short) });
      assert.deepEqual(Object.keys(object), ["city"]);
    },
  };
}

const checks = {
  async embedMany() {
    const { embeddings } = await embedMany({ model: compatible.textEmbeddingModel(encoder), values: ["one", "two"] });
    assert.equal(embeddings.length, 2);
    assert.equal(embeddings[0].length, embeddings[1].length);
  },
};
for (const [name, chosen] of Object.entries(models)) {
  Object.assign(checks, textChecks(name, chosen), toolChecks(name, chosen));
}

await run(checks);
