// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/tool_formats.h"

#include <algorithm>
#include <initializer_list>

#include "text/chat_output/gemma_calls.h"
#include "text/chat_output/json_calls.h"
#include "text/chat_output/minimax_calls.h"
#include "text/chat_output/named_calls.h"
#include "text/chat_output/pythonic_calls.h"
#include "text/chat_output/tagged_calls.h"

namespace dunlin::text {
namespace {

using Reader = std::unique_ptr<CallReader>;
using Texts = std::span<const std::string_view>;

bool HasAny(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [text](std::string_view part) { return text.find(part) != std::string_view::npos; });
}
bool HasAll(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [text](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

constexpr std::string_view kHarmonyToolTokens[] = {"<|start|>",     "<|channel|>", "<|message|>", "<|end|>",
                                                   "<|constrain|>", "<|call|>",    "<|return|>"};
constexpr std::string_view kMuseOpeners[] = {"<atem:function_calls>", "<atem:invoke name=\""};
constexpr std::string_view kMuseClosers[] = {"</atem:function_calls>"};
constexpr std::string_view kMuseToolTokens[] = {"<|start|>", "<|message|>", "<|eom|>", "<|eot|>"};
constexpr std::string_view kDeepseekOpeners[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"};
constexpr std::string_view kDeepseekClosers[] = {"<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
constexpr std::string_view kDeepseekTokens[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                                "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
constexpr std::string_view kMistralOpeners[] = {"[TOOL_CALLS]"};
constexpr std::string_view kMistralTokens[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
constexpr std::string_view kKimiOpeners[] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"};
constexpr std::string_view kKimiClosers[] = {"<|tool_call_end|>", "<|tool_calls_section_end|>"};
constexpr std::string_view kKimiTokens[] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                            "<|tool_call_argument_begin|>", "<|tool_call_end|>",
                                            "<|tool_calls_section_end|>"};
constexpr std::string_view kGemmaOpeners[] = {"<|tool_call>"};
constexpr std::string_view kGemmaClosers[] = {"<tool_call|>", "<|tool_response>"};
constexpr std::string_view kGemmaTokens[] = {"<|tool_call>", "<tool_call|>", "<|tool_response>", kGemmaQuote};
constexpr std::string_view kMinimaxOpeners[] = {"<minimax:tool_call>", "<invoke name=\""};
constexpr std::string_view kMinimaxClosers[] = {"</minimax:tool_call>"};
constexpr std::string_view kMinimaxTokens[] = {"<minimax:tool_call>", "</minimax:tool_call>"};
constexpr std::string_view kMinimaxM3Openers[] = {kMinimaxBlock, kMinimaxInvoke};
constexpr std::string_view kMinimaxM3Closers[] = {kMinimaxBlockEnd};
constexpr std::string_view kMinimaxM3Tokens[] = {kMinimaxMark, "<tool_call>", "</tool_call>"};
constexpr std::string_view kDsmlOpeners[] = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>",
                                             "<｜DSML｜invoke name=\""};
constexpr std::string_view kDsmlClosers[] = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"};
constexpr std::string_view kDsmlTokens[] = {"｜DSML｜"};
constexpr std::string_view kGlmTokens[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                           "</arg_key>",  "<arg_value>",  "</arg_value>"};
constexpr std::string_view kLfm2Openers[] = {"<|tool_call_start|>"};
constexpr std::string_view kLfm2Closers[] = {"<|tool_call_end|>"};
constexpr std::string_view kLfm2Tokens[] = {"<|tool_call_start|>", "<|tool_call_end|>"};
constexpr std::string_view kXmlOpeners[] = {"<tool_call>", "<function="};
constexpr std::string_view kTaggedClosers[] = {"</tool_call>"};
constexpr std::string_view kTaggedTokens[] = {"<tool_call>", "</tool_call>"};
constexpr std::string_view kGraniteOpeners[] = {"<|tool_call|>", "<tool_call>"};
constexpr std::string_view kGraniteTokens[] = {"<|tool_call|>", "<tool_call>", "</tool_call>"};
constexpr std::string_view kToolCallOpeners[] = {"<tool_call>"};
constexpr std::string_view kPythonOpeners[] = {"<|python_start|>"};
constexpr std::string_view kPythonClosers[] = {"<|python_end|>"};
constexpr std::string_view kPythonTokens[] = {"<|python_start|>", "<|python_end|>"};
constexpr std::string_view kLlamaOpeners[] = {"<|python_tag|>"};

bool IsHarmonyTools(std::string_view text) {
  return HasAll(text, {"<|channel|>", "<|message|>"}) && HasAny(text, {"<|call|>", "to=functions."});
}
bool IsMuseTools(std::string_view text) {
  return HasAll(text, {"<atem:function_calls>", "<|message|>"});
}
bool IsDeepseek(std::string_view text) {
  return HasAny(text, {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"});
}
bool IsMistralTools(std::string_view text) {
  return HasAny(text, {"[TOOL_CALLS]"});
}
bool IsKimi(std::string_view text) {
  return HasAny(text, {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"});
}
bool IsGemma(std::string_view text) {
  return HasAny(text, {"<|tool_call>"});
}
bool IsMinimax(std::string_view text) {
  return HasAny(text, {"<minimax:tool_call>"});
}
bool IsMinimaxM3(std::string_view text) {
  return HasAny(text, {kMinimaxMark});
}
bool IsDsml(std::string_view text) {
  return HasAny(text, {"｜DSML｜"});
}
bool IsGlm(std::string_view text) {
  return HasAll(text, {"<arg_key>", "<arg_value>"}) && !HasAny(text, {"<tool_sep>"});
}
bool IsLfm2(std::string_view text) {
  return HasAny(text, {"<|tool_call_start|>", "<|tool_list_start|>", "List of tools: ["});
}
bool IsXml(std::string_view text) {
  return HasAll(text, {"<function=", "<parameter="});
}
bool IsGranite(std::string_view text) {
  return HasAny(text, {"<|tool_call|>", "<tool_call>["});
}
bool IsHermes(std::string_view text) {
  return HasAny(text, {"<tool_call>"});
}
bool IsPythonic(std::string_view text) {
  return HasAny(text,
                {"<|python_start|>", "func_name1(", ".name ~ '('", ".name + '('", ".name ~ \"(\"", ".name + \"(\""});
}
bool IsLlamaJson(std::string_view text) {
  return HasAny(text, {"<|python_tag|>"}) || (HasAny(text, {"{\"name\": "}) && HasAny(text, {"\"parameters\": "}));
}

Reader MakeJson(size_t, const ToolSet*) {
  return MakeJsonCalls(false);
}
Reader MakeLlamaJson(size_t, const ToolSet*) {
  return MakeJsonCalls(true);
}
Reader MakeMistral(size_t, const ToolSet*) {
  return MakeMistralCalls();
}
Reader MakeDeepseek(size_t opener, const ToolSet*) {
  return MakeDeepseekCall(opener == 0);
}
Reader MakeKimi(size_t opener, const ToolSet*) {
  return MakeKimiCall(opener == 0);
}
Reader MakeQwen(size_t opener, const ToolSet* tools) {
  return MakeTaggedCall(kQwenTags, opener == 1, tools);
}
Reader MakeGlm(size_t, const ToolSet* tools) {
  return MakeTaggedCall(kGlmTags, false, tools);
}
Reader MakeGemma(size_t, const ToolSet*) {
  return MakeGemmaCall();
}
Reader MakeMinimax(size_t opener, const ToolSet* tools) {
  return MakeTaggedCall(kMinimaxTags, opener == 1, tools);
}
Reader MakeMinimaxM3(size_t opener, const ToolSet* tools) {
  return MakeMinimaxM3Call(opener == 1, tools);
}
Reader MakeAtem(size_t opener, const ToolSet* tools) {
  return MakeTaggedCall(kAtemTags, opener == 1, tools);
}
Reader MakeDsml(size_t opener, const ToolSet* tools) {
  return MakeTaggedCall(kDsmlTags, opener == 2, tools);
}
Reader MakePythonic(size_t, const ToolSet*) {
  return MakePythonicCalls();
}

constexpr ToolFormat kToolFormats[] = {
    {"gpt_oss",
     {},
     {},
     '\0',
     kHarmonyToolTokens,
     false,
     IsHarmonyTools,
     nullptr,
     HarmonyCallGrammar,
     OutputFrame::kChannels},
    {"muse_glimmer", kMuseOpeners, kMuseClosers, '\0', kMuseToolTokens, false, IsMuseTools, MakeAtem, MuseCallGrammar,
     OutputFrame::kRecipients},
    {"deepseek", kDeepseekOpeners, kDeepseekClosers, '\0', kDeepseekTokens, false, IsDeepseek, MakeDeepseek,
     DeepseekCallGrammar},
    {"mistral", kMistralOpeners, {}, '\0', kMistralTokens, true, IsMistralTools, MakeMistral, MistralCallGrammar},
    {"kimi_k2", kKimiOpeners, kKimiClosers, '\0', kKimiTokens, false, IsKimi, MakeKimi, KimiCallGrammar},
    {"minimax_m2", kMinimaxOpeners, kMinimaxClosers, '\0', kMinimaxTokens, false, IsMinimax, MakeMinimax,
     MinimaxCallGrammar},
    {"minimax_m3", kMinimaxM3Openers, kMinimaxM3Closers, '\0', kMinimaxM3Tokens, false, IsMinimaxM3, MakeMinimaxM3,
     MinimaxM3CallGrammar},
    {"gemma4", kGemmaOpeners, kGemmaClosers, '\0', kGemmaTokens, false, IsGemma, MakeGemma, GemmaCallGrammar},
    {"dsml", kDsmlOpeners, kDsmlClosers, '\0', kDsmlTokens, false, IsDsml, MakeDsml, DsmlCallGrammar},
    {"lfm2", kLfm2Openers, kLfm2Closers, '\0', kLfm2Tokens, false, IsLfm2, MakePythonic, Lfm2CallGrammar},
    {"qwen3_coder", kXmlOpeners, kTaggedClosers, '\0', kTaggedTokens, false, IsXml, MakeQwen, QwenCallGrammar},
    {"glm", kToolCallOpeners, {}, '\0', kGlmTokens, false, IsGlm, MakeGlm, GlmCallGrammar},
    {"granite", kGraniteOpeners, kTaggedClosers, '\0', kGraniteTokens, false, IsGranite, MakeJson, GraniteCallGrammar},
    {"hermes", kToolCallOpeners, kTaggedClosers, '\0', kTaggedTokens, false, IsHermes, MakeJson, HermesCallGrammar},
    {"pythonic", kPythonOpeners, kPythonClosers, '[', kPythonTokens, false, IsPythonic, MakePythonic,
     PythonicCallGrammar},
    {"llama3_json", kLlamaOpeners, {}, '{', kLlamaOpeners, false, IsLlamaJson, MakeLlamaJson, LlamaCallGrammar},
};

}  // namespace

std::span<const ToolFormat> ToolFormats() {
  return kToolFormats;
}

const ToolFormat* FindToolFormat(std::string_view name) {
  const auto* row = std::find_if(std::begin(kToolFormats), std::end(kToolFormats),
                                 [name](const ToolFormat& format) { return format.name == name; });
  return row == std::end(kToolFormats) ? nullptr : row;
}

const ToolFormat* RecogniseToolFormat(std::string_view chat_template) {
  const auto* row =
      std::find_if(std::begin(kToolFormats), std::end(kToolFormats),
                   [chat_template](const ToolFormat& format) { return format.recognises(chat_template); });
  return row == std::end(kToolFormats) ? nullptr : row;
}

}  // namespace dunlin::text
