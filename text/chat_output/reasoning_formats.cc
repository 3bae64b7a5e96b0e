// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/reasoning_formats.h"

#include <algorithm>

#include "text/chat_output/scan.h"

namespace dunlin::text {
namespace {

constexpr std::string_view kHarmonyReasoningTokens[] = {"<|start|>", "<|channel|>", "<|message|>", "<|end|>",
                                                        "<|return|>"};
constexpr std::string_view kMuseReasoningTokens[] = {"<|start|>", "<|message|>", "<|eom|>", "<|eot|>"};
constexpr std::string_view kThinkTokens[] = {"<think>", "</think>"};
constexpr std::string_view kGemmaThinkTokens[] = {"<|channel>", "<channel|>", "<|tool_call>"};
constexpr std::string_view kGemmaCalls[] = {"<|tool_call>"};
constexpr std::string_view kKimiThinkTokens[] = {"<think>", "</think>", "<|tool_calls_section_begin|>"};
constexpr std::string_view kKimiCalls[] = {"<|tool_calls_section_begin|>"};
constexpr std::string_view kMinimaxThinkTokens[] = {"<mm:think>", "</mm:think>"};
constexpr std::string_view kSeedThinkTokens[] = {"<seed:think>", "</seed:think>"};
constexpr std::string_view kCohereThinkTokens[] = {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>"};
constexpr std::string_view kCohereCalls[] = {"<|START_ACTION|>"};
constexpr std::string_view kHunyuanThinkTokens[] = {"<think>", "</think>", "<answer>", "</answer>"};
constexpr std::string_view kErnieThinkTokens[] = {"<think>", "</think>", "<response>", "</response>"};
constexpr std::string_view kBracketTokens[] = {"[THINK]", "[/THINK]"};

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool IsHarmonyReasoning(std::string_view text) {
  return Has(text, "<|channel|>") && Has(text, "<|message|>") && Has(text, "analysis");
}
bool IsMuseReasoning(std::string_view text) {
  return Has(text, "<|message|>") && (Has(text, "to=self") || Has(text, "<atem:function_calls>"));
}
bool IsGemmaReasoning(std::string_view text) {
  return Has(text, "<|channel>") && Has(text, "<channel|>");
}
bool IsKimiReasoning(std::string_view text) {
  return Has(text, "<think>") && Has(text, "<|tool_calls_section_begin|>");
}
bool IsMinimaxReasoning(std::string_view text) {
  return Has(text, "</mm:think>");
}
bool IsSeedReasoning(std::string_view text) {
  return Has(text, "<seed:think>");
}
bool IsCohereReasoning(std::string_view text) {
  return Has(text, "<|START_THINKING|>");
}
bool IsHunyuanReasoning(std::string_view text) {
  return Has(text, "</think>") && Has(text, "</answer>");
}
bool IsErnieReasoning(std::string_view text) {
  return Has(text, "</think>") && Has(text, "</response>");
}
bool IsQwen3(std::string_view text) {
  return Has(text, "</think>") && Has(text, "enable_thinking");
}
bool IsThinkTags(std::string_view text) {
  return Has(text, "<think>") || Has(text, "</think>");
}
bool IsMistralReasoning(std::string_view text) {
  return Has(text, "[THINK]");
}

// qwen3 and think_tags are read alike. Their templates differ in the prompt's end: with enable_thinking = false Qwen3's
// writes an empty block there; those of DeepSeek-R1 and others open a block.
constexpr ReasoningFormat kReasoningFormats[] = {
    {"gpt_oss",
     "<|channel|>analysis<|message|>",
     "<|end|>",
     kHarmonyReasoningTokens,
     {},
     IsHarmonyReasoning,
     false,
     OutputFrame::kChannels,
     "<|channel|>final<|message|>"},
    {"muse_glimmer",
     " to=self<|message|>",
     "<|eom|>",
     kMuseReasoningTokens,
     {},
     IsMuseReasoning,
     false,
     OutputFrame::kRecipients,
     " to=user<|message|>"},
    {"gemma4", "<|channel>thought", "<channel|>", kGemmaThinkTokens, kGemmaCalls, IsGemmaReasoning},
    {"kimi_k2", "<think>", "</think>", kKimiThinkTokens, kKimiCalls, IsKimiReasoning},
    {"minimax_m3", "<mm:think>", "</mm:think>", kMinimaxThinkTokens, {}, IsMinimaxReasoning, true},
    {"seed_oss", "<seed:think>", "</seed:think>", kSeedThinkTokens, {}, IsSeedReasoning},
    {"cohere", "<|START_THINKING|>", "<|END_THINKING|>", kCohereThinkTokens, kCohereCalls, IsCohereReasoning},
    {"hunyuan",
     "<think>",
     "</think>",
     kHunyuanThinkTokens,
     {},
     IsHunyuanReasoning,
     false,
     OutputFrame::kNone,
     {},
     {"<answer>", "</answer>"}},
    {"ernie4_5",
     "<think>",
     "</think>",
     kErnieThinkTokens,
     {},
     IsErnieReasoning,
     false,
     OutputFrame::kNone,
     {},
     {"<response>", "</response>"}},
    {"qwen3", "<think>", "</think>", kThinkTokens, {}, IsQwen3},
    {"think_tags", "<think>", "</think>", kThinkTokens, {}, IsThinkTags},
    {"mistral", "[THINK]", "[/THINK]", kBracketTokens, {}, IsMistralReasoning},
};

}  // namespace

std::span<const ReasoningFormat> ReasoningFormats() {
  return kReasoningFormats;
}

const ReasoningFormat* FindReasoningFormat(std::string_view name) {
  const auto* row = std::find_if(std::begin(kReasoningFormats), std::end(kReasoningFormats),
                                 [name](const ReasoningFormat& format) { return format.name == name; });
  return row == std::end(kReasoningFormats) ? nullptr : row;
}

const ReasoningFormat* RecogniseReasoningFormat(std::string_view chat_template) {
  const auto* row =
      std::find_if(std::begin(kReasoningFormats), std::end(kReasoningFormats),
                   [chat_template](const ReasoningFormat& format) { return format.recognises(chat_template); });
  return row == std::end(kReasoningFormats) ? nullptr : row;
}

bool BeginsInReasoning(const ReasoningFormat& format, std::string_view prompt) {
  if (format.frame != OutputFrame::kNone) return false;
  const size_t at = prompt.rfind(format.open);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = prompt.substr(at + format.open.size());
  return std::all_of(rest.begin(), rest.end(), &IsJsonSpace);
}

}  // namespace dunlin::text
