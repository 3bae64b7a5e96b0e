// SPDX-License-Identifier: Apache-2.0
// Outputs in the forms of single families.
#include "tests/text/chat_output/samples.h"

namespace dunlin::text {
namespace {

const char kCity[] = R"({"city": "Leeds"})";

std::vector<Sample> TaggedFamilySamples() {
  return {
      {"seed-oss",
       "seed_oss",
       "seed_oss",
       "<seed:bos>assistant\n",
       "<seed:think>\nHm.<seed:cot_budget_reflect>5 of 9</seed:cot_budget_reflect>\n</seed:think>I look.\n"
       "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Leeds\n and </parameter>\n"
       "<parameter=days>3</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=ping>\n</function>\n"
       "</seed:tool_call>",
       "I look.\n",
       "Hm.<seed:cot_budget_reflect>5 of 9</seed:cot_budget_reflect>",
       {{"get_weather", R"({"city": "Leeds\n and ", "days": 3})", true}, {"ping", "{}", true}}},
      {"seed-oss has other markers than qwen",
       "",
       "seed_oss",
       "",
       "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
       "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
       "",
       {}},
      {"hy 3",
       "think_tags",
       "hy_v3",
       "<think>",
       "Hm.</think>I look.<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n"
       "<arg_value>Leeds</arg_value>\n</tool_call>\n<tool_call>ping<tool_sep></tool_call>\n</tool_calls>",
       "I look.",
       "Hm.",
       {{"get_weather", kCity, true}, {"ping", "{}", true}}},
      {"hy 3 without its block",
       "",
       "hy_v3",
       "",
       "<tool_call>get_weather<tool_sep><arg_key>days</arg_key><arg_value>2</arg_value></tool_call></tool_calls>!",
       "!",
       "",
       {{"get_weather", R"({"days": 2})", true}}},
      {"functiongemma",
       "",
       "functiongemma",
       "<start_of_turn>model\n",
       "<start_function_call>call:get_weather{city:<escape>Leeds <|\"|> {,}<escape>,days:3,tags:[<escape>a<escape>]}"
       "<end_function_call><start_function_call>call:ping{}<end_function_call><start_function_response>",
       "",
       "",
       {{"get_weather", R"({"city": "Leeds <|\"|> {,}", "days": 3, "tags": ["a"]})", true}, {"ping", "{}", true}}},
      {"olmo 3",
       "think_tags",
       "olmo3",
       "<|im_start|>assistant\n<think>",
       "Hm.</think>\n\nI look.<function_calls>get_weather(city='Leeds', days=3, "
       "exact=True)\nping()\n</function_calls>Done.",
       "I look.Done.",
       "Hm.",
       {{"get_weather", R"({"city": "Leeds", "days": 3, "exact": true})", true}, {"ping", "{}", true}}},
      {"olmo 3 without an end", "", "olmo3", "", "<function_calls>\nping()\n", "", "", {{"ping", "{}", true}}},
  };
}

std::vector<Sample> ListedFamilySamples() {
  return {
      {"hunyuan",
       "think_tags",
       "hunyuan",
       "",
       "<think>\nHm.\n</think>\nI look.<tool_calls>\n [{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Leeds\"}},\n"
       "{\"name\": \"ping\", \"arguments\": {}, \"id\": \"7\"}]\n</tool_calls>",
       "I look.",
       "Hm.",
       {{"get_weather", kCity, true}, {"ping", "{}", true}}},
      {"nemotron",
       "think_tags",
       "nemotron",
       "<think>\n",
       "Hm.</think>\n\n<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Leeds\"}}, "
       "{\"name\": \"ping\", \"arguments\": {}}]</TOOLCALL>",
       "",
       "Hm.",
       {{"get_weather", kCity, true}, {"ping", "{}", true}}},
      {"phi 4 mini",
       "",
       "phi4_mini",
       "<|assistant|>",
       "I use functools.\nfunctools[\n  {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Leeds\"}},\n"
       "  {\"name\": \"ping\", \"parameters\": {}}\n]",
       "I use functools.\n",
       "",
       {{"get_weather", kCity, true}, {"ping", "{}", true}}},
      {"phi 4 mini with the markers of its prompt",
       "",
       "phi4_mini",
       "",
       "<|tool_call|>[{\"name\": \"ping\", \"arguments\": {}}]<|/tool_call|>",
       "",
       "",
       {{"ping", "{}", true}}},
      {"cohere",
       "cohere",
       "cohere",
       "<|CHATBOT_TOKEN|>",
       "<|START_THINKING|>I call.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
       "\"get_weather\", \"parameters\": {\"city\": \"Leeds\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": "
       "\"ping\", "
       "\"parameters\": {}}\n]<|END_ACTION|>",
       "",
       "I call.",
       {{"get_weather", kCity, true}, {"ping", "{}", true}}},
      {"cohere's reasoning that a call ends",
       "cohere",
       "cohere",
       "<|CHATBOT_TOKEN|><|START_THINKING|>",
       "I call.<|START_ACTION|>[{\"tool_name\": \"ping\", \"parameters\": {}}]<|END_ACTION|>",
       "",
       "I call.",
       {{"ping", "{}", true}}},
  };
}

std::vector<Sample> AnsweredFamilySamples() {
  return {
      {"hunyuan's answer",
       "hunyuan",
       "",
       "",
       "<think>\nHm.\n</think>\n<answer>\n  A\n\n<b> </answe> \n</answer>\n",
       "  A\n\n<b> </answe> ",
       "Hm.",
       {}},
      {"hunyuan's answer after a prompt that closed the reasoning",
       "hunyuan",
       "hunyuan",
       "<think>\n\n</think>\n",
       "<answer>\nA.\n</answer>",
       "A.",
       "",
       {}},
      {"hunyuan without tags",
       "hunyuan",
       "hunyuan",
       "",
       "<think>Hm.</think>\nThe tags are <answer> and </answer>.\n",
       "The tags are <answer> and </answer>.\n",
       "Hm.",
       {}},
      {"hunyuan's calls in its answer",
       "hunyuan",
       "hunyuan",
       "",
       "<think>\nHm.\n</think>\n<answer>\nI look.\n<tool_calls>[{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"</answer>\"}}]</tool_calls>\n</answer>",
       "I look.\n",
       "Hm.",
       {{"get_weather", R"({"city": "</answer>"})", true}}},
      {"hunyuan's answer that does not end", "hunyuan", "hunyuan", "", "<answer>\nA.\n\n</ans", "A.\n\n</ans", "", {}},
      {"hunyuan's empty answer", "hunyuan", "hunyuan", "", "<answer>\n\n</answer>\n", "", "", {}},
      {"ernie's calls behind its answer",
       "ernie4_5",
       "hermes",
       "<think>\n",
       "Hm.\n</think>\n\n\n<response>\nI look.\n</response>\n\n\n<tool_call>\n{\"name\": \"get_weather\", "
       "\"arguments\": {\"city\": \"Leeds\"}}\n</tool_call>\n",
       "I look.",
       "Hm.",
       {{"get_weather", kCity, true}}},
      {"ernie's text behind its answer",
       "ernie4_5",
       "hermes",
       "<think>\n",
       "Hm.\n</think>\n<response>A.</response>\n B",
       "A.\n B",
       "Hm.",
       {}},
  };
}

}  // namespace

std::vector<Sample> SamplesOfFamilies() {
  std::vector<Sample> all = TaggedFamilySamples();
  for (const auto& samples : {ListedFamilySamples(), AnsweredFamilySamples()}) {
    all.insert(all.end(), samples.begin(), samples.end());
  }
  return all;
}

}  // namespace dunlin::text
