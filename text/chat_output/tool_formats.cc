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
constexpr std::string_view kGemmaTokens[] = {"<|tool_call>", "<tool_call|>", "<|tool_response>", kGemma4Marks.quote};
constexpr std::string_view kFunctionGemmaOpeners[] = {kFunctionGemmaMarks.begin};
constexpr std::string_view kFunctionGemmaClosers[] = {kFunctionGemmaMarks.end, "<start_function_response>"};
constexpr std::string_view kFunctionGemmaTokens[] = {kFunctionGemmaMarks.begin, kFunctionGemmaMarks.end,
                                                     kFunctionGemmaMarks.quote, "<start_function_response>"};
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
constexpr std::string_view kSeedOpeners[] = {"<seed:tool_call>"};
constexpr std::string_view kSeedClosers[] = {"</seed:tool_call>"};
constexpr std::string_view kSeedTokens[] = {"<seed:tool_call>", "</seed:tool_call>"};
constexpr std::string_view kHy3Openers[] = {"<tool_calls>", "<tool_call>"};
constexpr std::string_view kHunyuanOpeners[] = {"<tool_calls>"};
constexpr std::string_view kHunyuanClosers[] = {"</tool_calls>"};
constexpr std::string_view kHunyuanTokens[] = {"<tool_calls>", "</tool_calls>"};
constexpr std::string_view kHy3Tokens[] = {"<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>", "<tool_sep>",
                                           "<arg_key>",    "</arg_key>",    "<arg_value>", "</arg_value>"};
constexpr std::string_view kOlmo3Openers[] = {"<function_calls>"};
constexpr std::string_view kOlmo3Tokens[] = {"<function_calls>", "</function_calls>"};
constexpr std::string_view kNemotronOpeners[] = {"<TOOLCALL>"};
constexpr std::string_view kNemotronClosers[] = {"</TOOLCALL>"};
constexpr std::string_view kNemotronTokens[] = {"<TOOLCALL>", "</TOOLCALL>"};
constexpr std::string_view kPhi4MiniOpeners[] = {"functools", "<|tool_call|>"};
constexpr std::string_view kPhi4MiniClosers[] = {"<|/tool_call|>"};
constexpr std::string_view kPhi4MiniTokens[] = {"<|tool_call|>", "<|/tool_call|>"};
constexpr std::string_view kCohereOpeners[] = {"<|START_ACTION|>"};
constexpr std::string_view kCohereClosers[] = {"<|END_ACTION|>"};
constexpr std::string_view kCohereTokens[] = {"<|START_ACTION|>", "<|END_ACTION|>"};
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
bool IsFunctionGemma(std::string_view text) {
  return HasAny(text, {kFunctionGemmaMarks.begin});
}
bool IsSeed(std::string_view text) {
  return HasAny(text, {"<seed:tool_call>"});
}
bool IsHy3(std::string_view text) {
  return HasAll(text, {"<tool_sep>", "<arg_key>", "<arg_value>"});
}
bool IsHunyuan(std::string_view text) {
  return HasAny(text, {"<tool_calls>"});
}
bool IsOlmo3(std::string_view text) {
  return HasAny(text, {"<function_calls>"}) && !HasAny(text, {"<invoke"});
}
bool IsNemotron(std::string_view text) {
  return HasAny(text, {"<TOOLCALL>"});
}
bool IsPhi4Mini(std::string_view text) {
  return HasAll(text, {"<|tool|>", "<|/tool|>"});
}
bool IsCohere(std::string_view text) {
  return HasAny(text, {"<|START_ACTION|>"});
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
Reader MakeHy3(size_t opener, const ToolSet* tools) {
  return MakeTaggedCall(kHy3Tags, opener == 1, tools);
}
Reader MakeSeed(size_t, const ToolSet* tools) {
  return MakeTaggedCall(kQwenTags, false, tools);
}
Reader MakeGemma(size_t, const ToolSet*) {
  return MakeGemmaCall(kGemma4Marks);
}
Reader MakeFunctionGemma(size_t, const ToolSet*) {
  return MakeGemmaCall(kFunctionGemmaMarks);
}
Reader MakeOlmo3(size_t, const ToolSet*) {
  return MakePythonicLines(kOlmo3Tokens[1]);
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
    {"functiongemma", kFunctionGemmaOpeners, kFunctionGemmaClosers, '\0', kFunctionGemmaTokens, false, IsFunctionGemma,
     MakeFunctionGemma, FunctionGemmaCallGrammar},
    {"dsml", kDsmlOpeners, kDsmlClosers, '\0', kDsmlTokens, false, IsDsml, MakeDsml, DsmlCallGrammar},
    {"lfm2", kLfm2Openers, kLfm2Closers, '\0', kLfm2Tokens, false, IsLfm2, MakePythonic, Lfm2CallGrammar},
    {"seed_oss", kSeedOpeners, kSeedClosers, '\0', kSeedTokens, false, IsSeed, MakeSeed, SeedCallGrammar},
    {"qwen3_coder", kXmlOpeners, kTaggedClosers, '\0', kTaggedTokens, false, IsXml, MakeQwen, QwenCallGrammar},
    {"glm", kToolCallOpeners, {}, '\0', kGlmTokens, false, IsGlm, MakeGlm, GlmCallGrammar},
    {"hy_v3", kHy3Openers, kHunyuanClosers, '\0', kHy3Tokens, false, IsHy3, MakeHy3, Hy3CallGrammar},
    {"hunyuan", kHunyuanOpeners, kHunyuanClosers, '\0', kHunyuanTokens, false, IsHunyuan, MakeJson, HunyuanCallGrammar},
    {"olmo3", kOlmo3Openers, {}, '\0', kOlmo3Tokens, false, IsOlmo3, MakeOlmo3, Olmo3CallGrammar},
    {"nemotron", kNemotronOpeners, kNemotronClosers, '\0', kNemotronTokens, false, IsNemotron, MakeJson,
     NemotronCallGrammar},
    {"cohere", kCohereOpeners, kCohereClosers, '\0', kCohereTokens, false, IsCohere, MakeJson, CohereCallGrammar},
    {"phi4_mini", kPhi4MiniOpeners, kPhi4MiniClosers, '\0', kPhi4MiniTokens, false, IsPhi4Mini, MakeJson,
     Phi4MiniCallGrammar},
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
