// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/tool_formats.h"

#include <algorithm>
#include <initializer_list>

#include "text/chat_output/json_calls.h"
#include "text/chat_output/named_calls.h"
#include "text/chat_output/pythonic_calls.h"
#include "text/chat_output/xml_calls.h"

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
constexpr std::string_view kDeepseekOpeners[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"};
constexpr std::string_view kDeepseekClosers[] = {"<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
constexpr std::string_view kDeepseekTokens[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                                "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
constexpr std::string_view kMistralOpeners[] = {"[TOOL_CALLS]"};
constexpr std::string_view kMistralTokens[] = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
constexpr std::string_view kXmlOpeners[] = {"<tool_call>", "<function="};
constexpr std::string_view kTaggedClosers[] = {"</tool_call>"};
constexpr std::string_view kTaggedTokens[] = {"<tool_call>", "</tool_call>"};
constexpr std::string_view kGraniteOpeners[] = {"<|tool_call|>", "<tool_call>"};
constexpr std::string_view kGraniteTokens[] = {"<|tool_call|>", "<tool_call>", "</tool_call>"};
constexpr std::string_view kHermesOpeners[] = {"<tool_call>"};
constexpr std::string_view kPythonOpeners[] = {"<|python_start|>"};
constexpr std::string_view kPythonClosers[] = {"<|python_end|>"};
constexpr std::string_view kPythonTokens[] = {"<|python_start|>", "<|python_end|>"};
constexpr std::string_view kLlamaOpeners[] = {"<|python_tag|>"};

bool IsHarmonyTools(std::string_view text) {
  return HasAll(text, {"<|channel|>", "<|message|>"}) && HasAny(text, {"<|call|>", "to=functions."});
}
bool IsDeepseek(std::string_view text) {
  return HasAny(text, {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"});
}
bool IsMistralTools(std::string_view text) {
  return HasAny(text, {"[TOOL_CALLS]"});
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
Reader MakeXml(size_t opener, const ToolSet* tools) {
  return MakeXmlCall(opener == 1, tools);
}
Reader MakePythonic(size_t, const ToolSet*) {
  return MakePythonicCalls();
}

constexpr ToolFormat kToolFormats[] = {
    {"gpt_oss", {}, {}, '\0', kHarmonyToolTokens, false, IsHarmonyTools, nullptr, HarmonyCallGrammar},
    {"deepseek", kDeepseekOpeners, kDeepseekClosers, '\0', kDeepseekTokens, false, IsDeepseek, MakeDeepseek,
     DeepseekCallGrammar},
    {"mistral", kMistralOpeners, {}, '\0', kMistralTokens, true, IsMistralTools, MakeMistral, MistralCallGrammar},
    {"qwen3_coder", kXmlOpeners, kTaggedClosers, '\0', kTaggedTokens, false, IsXml, MakeXml, XmlCallGrammar},
    {"granite", kGraniteOpeners, kTaggedClosers, '\0', kGraniteTokens, false, IsGranite, MakeJson, GraniteCallGrammar},
    {"hermes", kHermesOpeners, kTaggedClosers, '\0', kTaggedTokens, false, IsHermes, MakeJson, HermesCallGrammar},
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
