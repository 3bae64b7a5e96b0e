// SPDX-License-Identifier: Apache-2.0
#include "tests/text/chat_output/samples.h"

namespace dunlin::text {
namespace {

const char kLeeds[] = R"({"city": "Leeds"})";

std::vector<Sample> HermesSamples() {
  return {
      {"plain text",
       "",
       "hermes",
       "",
       "No call < here, <tool or <tool_cal.",
       "No call < here, <tool or <tool_cal.",
       "",
       {}},
      {"one call",
       "",
       "hermes",
       "",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Leeds\"}}\n</tool_call>",
       "",
       "",
       {{"get_weather", kLeeds, true}}},
      {"text, two calls, text",
       "",
       "hermes",
       "",
       "Let me look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Leeds\"}}\n</tool_call>\n"
       "<tool_call>{\"arguments\":{},\"name\":\"ping\"}</tool_call>\n That was it.",
       "Let me look.\n\n That was it.",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}}},
      {"braces, escapes and Unicode",
       "",
       "hermes",
       "",
       R"(<tool_call>{"name": "get\u005fweather", "id": [1, {"a": "}"}], )"
       R"("arguments": {"city": "a}{\"</tool_call>\\", "at": {"x": {"y": [-1.5e+3, true, null]}}, )"
       R"("tags": ["東京 🐦", "\ud83d\udc26"]}}</tool_call>)",
       "",
       "",
       {{"get_weather",
         R"({"city": "a}{\"</tool_call>\\", "at": {"x": {"y": [-1.5e+3, true, null]}}, "tags": ["東京 🐦", "\ud83d\udc26"]})",
         true}}},
      {"no arguments", "", "hermes", "", "<tool_call>{\"name\": \"ping\"}</tool_call>", "", "", {{"ping", "{}", true}}},
      {"no closing tag",
       "",
       "hermes",
       "",
       " <tool_call> {\"name\": \"ping\", \"parameters\": { } }",
       "",
       "",
       {{"ping", "{ }", true}}},
      {"an unknown function",
       "",
       "hermes",
       "",
       "<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>",
       "",
       "",
       {{"fly", "{}", true}}},
  };
}

std::vector<Sample> GraniteSamples() {
  return {
      {"granite's list",
       "",
       "granite",
       "",
       "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Leeds\"}}, {\"name\": \"ping\", "
       "\"arguments\": {}}]",
       "",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}}},
      {"granite's other tag",
       "",
       "granite",
       "",
       "<tool_call>[{\"name\": \"ping\", \"arguments\": {}}]</tool_call> ok",
       " ok",
       "",
       {{"ping", "{}", true}}},
      {"granite's object",
       "",
       "granite",
       "",
       "Hm <tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>",
       "Hm ",
       "",
       {{"ping", "{}", true}}},
  };
}

std::vector<Sample> XmlSamples() {
  return {
      {"xml",
       "",
       "qwen3_coder",
       "",
       "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nLeeds\n\n <b> \"x\"\\ "
       "</parameter\n</parameter>\n"
       "<parameter=days>\n 3\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", "
       "\"</p>\"]\n</parameter>\n"
       "<parameter=at>\n{\"x\": 1}\n</parameter>\n<parameter=new>\n7\n</parameter>\n</function>\n</tool_call>\n"
       "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
       "I look.\n",
       "",
       {{"get_weather",
         R"({"city": "Leeds\n\n <b> \"x\"\\ </parameter", "days": 3, "exact": true, "tags": ["a", "</p>"], "at": {"x": 1}, "new": "7"})",
         true},
        {"ping", "{}", true}}},
      {"xml without its tag",
       "",
       "qwen3_coder",
       "",
       "<function=find.birds><parameter=q>null</parameter><parameter=limit>many</parameter></function>",
       "",
       "",
       {{"find.birds", R"({"q": null, "limit": "many"})", true}}},
  };
}

std::vector<Sample> MarkedSamples() {
  return {
      {"mistral's list",
       "",
       "mistral",
       "",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Leeds\"}, \"id\": \"abcdefghi\"}, "
       "{\"name\": "
       "\"ping\", \"arguments\": {}}]",
       "",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}}},
      {"mistral's names",
       "",
       "mistral",
       "",
       "Sure.[TOOL_CALLS]get_weather[ARGS]{\"city\": "
       "\"Leeds\"}[TOOL_CALLS]ping[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]ping{}",
       "Sure.",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}, {"ping", "{}", true}}},
      {"deepseek v3",
       "",
       "deepseek",
       "",
       "Yes<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": "
       "\"Leeds\"}\n```"
       "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{}\n```<｜tool▁call▁end｜><"
       "｜tool▁calls▁end｜>",
       "Yes",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}}},
      {"deepseek v3.1",
       "",
       "deepseek",
       "",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Leeds\"}<｜tool▁call▁end｜>"
       "<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}}},
  };
}

std::vector<Sample> LlamaSamples() {
  return {
      {"llama",
       "",
       "llama3_json",
       "",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Leeds\"}}",
       "",
       "",
       {{"get_weather", kLeeds, true}}},
      {"llama with its tag",
       "",
       "llama3_json",
       "",
       "<|python_tag|>{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": \"Leeds\"}}; "
       "{\"name\": "
       "\"ping\", \"parameters\": {}}",
       "",
       "",
       {{"get_weather", kLeeds, true}, {"ping", "{}", true}}},
      {"llama answers JSON",
       "",
       "llama3_json",
       "",
       "{\"name\": \"Leeds\", \"parameters\": {}}",
       "{\"name\": \"Leeds\", \"parameters\": {}}",
       "",
       {}},
      {"pythonic",
       "",
       "pythonic",
       "",
       R"([get_weather(city="Leeds", days=3, exact = True, tags=['a"', "b'\n\x41\u00e9\101\q",], )"
       R"(at={'x': None, "y": (1, -2.), 'z': [.5, +1e3]}), ping(),
 find.birds(q='',)])",
       "",
       "",
       {{"get_weather",
         R"({"city": "Leeds", "days": 3, "exact": true, "tags": ["a\"", "b'\nA\u00e9A\\q"], )"
         R"("at": {"x": null, "y": [1, -2.0], "z": [0.5, 1e3]}})",
         true},
        {"ping", "{}", true},
        {"find.birds", R"({"q": ""})", true}}},
      {"pythonic with its tags",
       "",
       "pythonic",
       "",
       "Ok. <|python_start|>[ping()]<|python_end|>",
       "Ok. ",
       "",
       {{"ping", "{}", true}}},
      {"pythonic text",
       "",
       "pythonic",
       "",
       "[1] says that [ping()] is a call.",
       "[1] says that [ping()] is a call.",
       "",
       {}},
  };
}

std::vector<Sample> ReasoningSamples() {
  return {
      {"thinking",
       "think_tags",
       "",
       "",
       "<think>\nHm <b> </thin\n\nso\n\n</think>\n\nYes </think>.",
       "Yes </think>.",
       "Hm <b> </thin\n\nso",
       {}},
      {"thinking from the prompt on",
       "think_tags",
       "hermes",
       "<|im_start|>assistant\n<think>\n",
       "\nI ping.\n</think>\n\n<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>",
       "",
       "I ping.",
       {{"ping", "{}", true}}},
      {"thinking in MiniMax M3's tags",
       "minimax_m3",
       "hermes",
       "]~b]ai\n<mm:think>",
       "I ping. </think>\n</mm:think>\n\nYes.",
       "Yes.",
       "I ping. </think>",
       {}},
      {"thinking that the prompt has closed",
       "qwen3",
       "hermes",
       "<|im_start|>assistant\n<think>\n\n</think>\n\n",
       "Yes <think> no.",
       "Yes <think> no.",
       "",
       {}},
      {"thinking without an end", "qwen3", "hermes", "", "<think>a <tool_call>\n", "", "a <tool_call>\n", {}},
      {"no thinking", "qwen3", "hermes", "", "  <thin air", "  <thin air", "", {}},
      {"thinking in brackets",
       "mistral",
       "mistral",
       "",
       "[THINK]a[/THINK]b[TOOL_CALLS]ping[ARGS]{}",
       "b",
       "a",
       {{"ping", "{}", true}}},
  };
}

std::vector<Sample> HarmonySamples() {
  return {
      {"harmony",
       "gpt_oss",
       "gpt_oss",
       "<|start|>assistant",
       "<|channel|>analysis<|message|>Need <b>it</b>.<|end|><|start|>assistant<|channel|>commentary<|message|>I "
       "look.<|end|>"
       "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": "
       "\"Leeds\"}<|call|>",
       "I look.",
       "Need <b>it</b>.",
       {{"get_weather", kLeeds, true}}},
      {"harmony's answer",
       "gpt_oss",
       "",
       "<|start|>assistant",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes < no<|return|>",
       "Yes < no",
       "Hm.",
       {}},
      {"harmony's recipient first",
       "gpt_oss",
       "gpt_oss",
       "<|start|>assistant",
       " to=functions.ping<|channel|>commentary json<|message|>{}<|call|>",
       "",
       "",
       {{"ping", "{}", true}}},
      {"harmony without the end that is a stop token",
       "gpt_oss",
       "gpt_oss",
       "<|start|>assistant",
       "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{ }",
       "",
       "",
       {{"ping", "{ }", true}}},
  };
}

std::vector<Sample> OtherHarmonySamples() {
  return {
      {"harmony's other tools",
       "gpt_oss",
       "gpt_oss",
       "<|start|>assistant",
       "<|channel|>analysis to=browser.search<|message|>birds<|call|><|start|>assistant<|channel|>final<|message|>So.",
       "<|channel|>analysis to=browser.search<|message|>birds<|call|>So.",
       "",
       {}},
      {"harmony's calls without tools",
       "gpt_oss",
       "",
       "<|start|>assistant",
       "<|channel|>commentary to=functions.ping<|message|>{}<|call|>",
       "<|channel|>commentary to=functions.ping<|message|>{}<|call|>",
       "",
       {}},
      {"harmony's analysis without reasoning",
       "",
       "gpt_oss",
       "<|start|>assistant",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>So.",
       "<|channel|>analysis<|message|>Hm.<|end|>So.",
       "",
       {}},
      {"a model that writes no channels",
       "gpt_oss",
       "gpt_oss",
       "<|start|>assistant",
       "Just <|text|>.",
       "Just <|text|>.",
       "",
       {}},
      {"harmony continued",
       "gpt_oss",
       "gpt_oss",
       "<|start|>assistant<|channel|>final<|message|>One, two",
       ", three<|return|>",
       ", three",
       "",
       {}},
  };
}

}  // namespace

const std::vector<Sample>& Samples() {
  static const std::vector<Sample> samples = [] {
    std::vector<Sample> all;
    for (const std::vector<Sample>& some :
         {HermesSamples(), GraniteSamples(), XmlSamples(), MarkedSamples(), LlamaSamples(), ReasoningSamples(),
          HarmonySamples(), OtherHarmonySamples(), SamplesOf2026(), SamplesOfFamilies()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return samples;
}

}  // namespace dunlin::text
