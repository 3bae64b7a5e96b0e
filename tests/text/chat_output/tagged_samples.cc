// SPDX-License-Identifier: Apache-2.0
#include "tests/text/chat_output/samples.h"

namespace dunlin::text {
namespace {

const char kLeedsCall[] = R"({"city": "Leeds"})";
// A value of every kind of schema that get_weather has, and one that it does not have.
const char kEveryKind[] =
    R"({"city": "Leeds\n <b> \"x\"\\ </par", "days": 3, "exact": true, "tags": ["a", "</p>"], "at": {"x": 1}, "new": "7"})";

std::vector<Sample> GlmSamples() {
  return {
      {"glm 4.6",
       "qwen3",
       "glm",
       "<|assistant|>",
       "\n<think>Hm.</think>\nI look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
       "<arg_value>Leeds\n <b> \"x\"\\ </par</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n"
       "<arg_key>exact</arg_key>\n<arg_value>True</arg_value>\n<arg_key>tags</arg_key>\n"
       "<arg_value>[\"a\", \"</p>\"]</arg_value>\n<arg_key>at</arg_key>\n<arg_value>{\"x\": 1}</arg_value>\n"
       "<arg_key>new</arg_key>\n<arg_value>7</arg_value>\n</tool_call>\n<tool_call>ping\n</tool_call>",
       "I look.\n",
       "Hm.",
       {{"get_weather", kEveryKind, true}, {"ping", "{}", true}}},
      {"glm 4.7 after reasoning that the prompt has opened",
       "qwen3",
       "glm",
       "<|assistant|><think>",
       "Hm.</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>Leeds</arg_value></tool_call>"
       "<tool_call>ping</tool_call>",
       "",
       "Hm.",
       {{"get_weather", kLeedsCall, true}, {"ping", "{}", true}}},
      {"glm's text values keep their white space and their tags",
       "",
       "glm",
       "",
       "<tool_call>get_weather<arg_key>city</arg_key><arg_value>\n</arg_key> </arg_val\n</arg_value></tool_call>!",
       "!",
       "",
       {{"get_weather", R"({"city": "\n</arg_key> </arg_val\n"})", true}}},
  };
}

std::vector<Sample> MinimaxAndDsmlSamples() {
  return {
      {"minimax",
       "think_tags",
       "minimax_m2",
       "]~b]ai\n<think>\n",
       "Hm.\n</think>\n\nI look.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n"
       "<parameter name=\"city\">Leeds\n <b> \"x\"\\ </par</parameter>\n<parameter name=\"days\">3</parameter>\n"
       "<parameter name=\"exact\">true</parameter>\n<parameter name=\"tags\">[\"a\", \"</p>\"]</parameter>\n"
       "<parameter name=\"at\">{\"x\": 1}</parameter>\n<parameter name=\"new\">7</parameter>\n</invoke>\n"
       "<invoke name=\"ping\">\n</invoke>\n</minimax:tool_call>",
       "I look.\n",
       "Hm.",
       {{"get_weather", kEveryKind, true}, {"ping", "{}", true}}},
      {"minimax without its block",
       "",
       "minimax_m2",
       "",
       "<invoke name=\"find.birds\"><parameter name=\"q\">null</parameter><parameter name=\"limit\">many</parameter>"
       "</invoke></minimax:tool_call> ok",
       " ok",
       "",
       {{"find.birds", R"({"q": null, "limit": "many"})", true}}},
      {"dsml",
       "qwen3",
       "dsml",
       "<｜Assistant｜><think>",
       "Hm.</think>I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
       "<｜DSML｜parameter name=\"city\" string=\"true\">Leeds\n <b> \"x\"\\ </par</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"exact\" string=\"false\">true</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"tags\" string=\"false\">[\"a\", \"</p>\"]</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"at\" string=\"false\">{\"x\": 1}</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"new\" string=\"true\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "<｜DSML｜invoke name=\"ping\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       "I look.\n\n",
       "Hm.",
       {{"get_weather", kEveryKind, true}, {"ping", "{}", true}}},
      {"dsml's tags say what a value is",
       "",
       "dsml",
       "",
       "<｜DSML｜tool_calls><｜DSML｜invoke name=\"find.birds\"><｜DSML｜parameter name=\"q\" string=\"true\">null"
       "</｜DSML｜parameter><｜DSML｜parameter name=\"limit\" string=\"false\">a few</｜DSML｜parameter>"
       "<｜DSML｜parameter name=\"x\" string=\"false\">\"</｜DSML｜parameter>\"</｜DSML｜parameter>"
       "</｜DSML｜invoke></｜DSML｜tool_calls>",
       "",
       "",
       {{"find.birds", R"({"q": "null", "limit": "a few", "x": "</｜DSML｜parameter>"})", true}}},
  };
}

std::vector<Sample> MinimaxM3Samples() {
  return {
      {"minimax m3",
       "minimax_m3",
       "minimax_m3",
       "]~b]ai\n<mm:think>",
       "Hm.</mm:think>I look.]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">"
       "]<]minimax[>[<city>Leeds\n <b> \"x\"\\ ]<]minimax]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>"
       "]<]minimax[>[<exact>true]<]minimax[>[</exact>]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>"
       "]<]minimax[>[<item>7]<]minimax[>[</item>]<]minimax[>[</tags>]<]minimax[>[<at>]<]minimax[>[<x>1]<]minimax[>[</x>"
       "]<]minimax[>[</at>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"ping\">]<]minimax[>[</invoke>\n"
       "]<]minimax[>[</tool_call>",
       "I look.",
       "Hm.",
       {{"get_weather",
         R"({"city": "Leeds\n <b> \"x\"\\ ]<]minimax", "days": 3, "exact": true, "tags": ["a", "7"], "at": {"x": "1"}})",
         true},
        {"ping", "{}", true}}},
      {"minimax m3 without its block, over lines",
       "",
       "minimax_m3",
       "",
       "]<]minimax[>[<invoke name=\"get_weather\">\n]<]minimax[>[<tags>]<]minimax[>[</tags>\n]<]minimax[>[<at>"
       "{\"x\": \"]<]minimax[>[<\"}]<]minimax[>[</at>\n]<]minimax[>[<new>\n]<]minimax[>[<item>\n]<]minimax[>[<a>b"
       "]<]minimax[>[</a>\n]<]minimax[>[</item>\n]<]minimax[>[</new>\n]<]minimax[>[<days>many]<]minimax[>[</days>\n"
       "]<]minimax[>[</invoke>]<]minimax[>[</tool_call> ok",
       " ok",
       "",
       {{"get_weather", R"({"tags": [], "at": {"x": "]<]minimax[>[<"}, "new": [{"a": "b"}], "days": "many"})", true}}},
      {"minimax m3 answers without thinking", "minimax_m3", "minimax_m3", "", "</mm:think>\nYes.", "Yes.", "", {}},
      {"minimax m3's own block of reasoning",
       "minimax_m3",
       "",
       "",
       "<mm:think>Hm.</mm:think></mm:think>Yes.",
       "</mm:think>Yes.",
       "Hm.",
       {}},
  };
}

std::vector<Sample> MuseSamples() {
  const char* form = "muse_glimmer";
  return {
      {"muse",
       form,
       form,
       "<|start|>user<|message|>hi<|eot|><|start|>assistant",
       " to=self<|message|>Hm, go to=user<|message|>.<|eom|><|start|>assistant to=get_weather.get_weather<|message|>"
       "<atem:function_calls>\n<atem:invoke name=\"get_weather.get_weather\">\n<atem:parameter name=\"city\">Leeds\n "
       "<b> "
       "\"x\"\\ </par</atem:parameter>\n<atem:parameter name=\"days\">3</atem:parameter>\n<atem:parameter "
       "name=\"exact\">true</atem:parameter>\n<atem:parameter name=\"tags\">[\"a\", \"</p>\"]</atem:parameter>\n"
       "<atem:parameter name=\"at\">{\"x\": 1}</atem:parameter>\n<atem:parameter name=\"new\">7</atem:parameter>\n"
       "</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=self<|message|> "
       "So.<|eom|><|start|>assistant "
       "to=find.birds<|message|><atem:function_calls>\n<atem:invoke name=\"find.birds\">\n</atem:invoke>\n"
       "<atem:invoke name=\"ping\">\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=user<|message|>"
       "Done.<|eot|>",
       "Done.",
       "Hm, go to=user<|message|>. So.",
       {{"get_weather", kEveryKind, true}, {"find.birds", "{}", true}, {"ping", "{}", true}}},
      {"muse's call behind a message without an end",
       form,
       form,
       "<|start|>assistant to=self",
       "<|message|>Hm, to=ping to=ping.ping<|message|><atem:function_calls>\n<atem:invoke name=\"ping.ping\">\n"
       "</atem:invoke>\n</atem:function_calls>",
       "",
       "Hm, to=ping ",
       {{"ping", "{}", true}}},
      {"muse continued",
       form,
       form,
       "<|start|>assistant to=user<|message|>One, two",
       ", to=three<|eot|>",
       ", to=three",
       "",
       {}},
      {"muse's messages without a recipient", form, "", "<|start|>assistant", "<|message|>One.<|eom|>", "One.", "", {}},
      {"muse's calls without tools",
       form,
       "",
       "<|start|>assistant",
       " to=ping<|message|>x<|eot|>",
       " to=ping<|message|>x<|eot|>",
       "",
       {}},
      {"muse's reasoning without its form",
       "",
       form,
       "<|start|>assistant",
       " to=self<|message|>x<|eom|>",
       " to=self<|message|>x<|eom|>",
       "",
       {}},
      {"muse's answer is no call",
       form,
       form,
       "<|start|>assistant",
       " to=user<|message|><atem:invoke name=\"ping\"></atem:invoke>",
       "<atem:invoke name=\"ping\"></atem:invoke>",
       "",
       {}},
  };
}

std::vector<Sample> KimiSamples() {
  return {
      {"kimi",
       "kimi_k2",
       "kimi_k2",
       "<|im_assistant|>assistant<|im_middle|>",
       "<think>Hm.</think>I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
       "<|tool_call_argument_begin|>{\"city\": \"Leeds\"}<|tool_call_end|><|tool_call_begin|>functions.find.birds:12"
       "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
       "I look.",
       "Hm.",
       {{"get_weather", kLeedsCall, true, "functions.get_weather:0"},
        {"find.birds", "{}", true, "functions.find.birds:12"}}},
      {"kimi without its section",
       "",
       "kimi_k2",
       "",
       "<|tool_call_begin|> ping:3 <|tool_call_argument_begin|> { } <|tool_call_end|>.",
       ".",
       "",
       {{"ping", "{ }", true, "ping:3"}}},
      {"kimi's reasoning that a call ends",
       "kimi_k2",
       "kimi_k2",
       "",
       "<think>Hm <|tool_calls_s.<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0"
       "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
       "",
       "Hm <|tool_calls_s.",
       {{"ping", "{}", true, "functions.ping:0"}}},
  };
}

std::vector<Sample> GemmaAndLfm2Samples() {
  return {
      {"gemma",
       "gemma4",
       "gemma4",
       "<|turn>model\n",
       "<|channel>thought\nHm <b>.\n<channel|>I look.<|tool_call>call:get_weather{city:<|\"|>Leeds\n \"x\"\\ <|\"} "
       "<|\"|>,days:3,exact:true,tags:[<|\"|>a<|\"|>,<|\"|><|\"|>],at:{x:-1.5e+3,y:{},z:[[],{a:None}]}}<tool_call|>"
       "<|tool_call>call:ping{}<tool_call|><|tool_response>",
       "I look.",
       "Hm <b>.",
       {{"get_weather",
         R"({"city": "Leeds\n \"x\"\\ <|\"} ", "days": 3, "exact": true, "tags": ["a", ""], )"
         R"("at": {"x": -1.5e+3, "y": {}, "z": [[], {"a": null}]}})",
         true},
        {"ping", "{}", true}}},
      {"gemma's reasoning that a call ends",
       "gemma4",
       "gemma4",
       "",
       "<|channel>thought\nHm.<|tool_call>call:ping{ a: 1 , b: [ 1 , 2 ] }<tool_call|>",
       "",
       "Hm.",
       {{"ping", R"({"a": 1, "b": [1, 2]})", true}}},
      {"gemma's reasoning that the prompt has closed",
       "gemma4",
       "",
       "<|turn>model\n<|channel>thought\n<channel|>",
       "Yes <channel|> no.",
       "Yes <channel|> no.",
       "",
       {}},
      {"lfm2",
       "think_tags",
       "lfm2",
       "",
       "<think>Hm.</think><|tool_call_start|>[get_weather(city='Leeds', days=3, at={\"x\": true}), ping()]"
       "<|tool_call_end|>Checking.",
       "Checking.",
       "Hm.",
       {{"get_weather", R"({"city": "Leeds", "days": 3, "at": {"x": true}})", true}, {"ping", "{}", true}}},
      {"lfm2's list without its marker is text", "", "lfm2", "", "[ping()]", "[ping()]", "", {}},
  };
}

}  // namespace

std::vector<Sample> SamplesOf2026() {
  std::vector<Sample> all;
  for (const std::vector<Sample>& some : {GlmSamples(), MinimaxAndDsmlSamples(), MinimaxM3Samples(), MuseSamples(),
                                          KimiSamples(), GemmaAndLfm2Samples()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace dunlin::text
