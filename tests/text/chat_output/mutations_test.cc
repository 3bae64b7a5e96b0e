// SPDX-License-Identifier: Apache-2.0
// Random bytes, and samples with random changes, in every pair of forms: nothing is lost, and the pieces in which an
// output comes change nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_replace.h"
#include "tests/text/chat_output/samples.h"

namespace dunlin::text {
namespace {

using Random = std::mt19937;

std::string Changed(std::string text, const std::vector<std::string>& parts, Random* random) {
  for (size_t changes = 1 + (*random)() % 3; changes > 0; --changes) {
    const size_t at = text.empty() ? 0 : (*random)() % text.size();
    switch ((*random)() % 4) {
      case 0:
        text.erase(at, 1 + (*random)() % 8);
        break;
      case 1:
        text.insert(at, parts[(*random)() % parts.size()]);
        break;
      case 2:
        if (!text.empty()) text[at] = static_cast<char>((*random)());
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

std::vector<std::string> MarkersAndPunctuation() {
  std::vector<std::string> parts = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    ",",
                                    "\n",
                                    " ",
                                    "(",
                                    ")",
                                    "=",
                                    ";",
                                    "<|channel|>final<|message|>",
                                    " to=ping<|message|><atem:"};
  for (const ToolFormat& format : ToolFormats()) parts.insert(parts.end(), format.tokens.begin(), format.tokens.end());
  for (const ReasoningFormat& format : ReasoningFormats()) {
    parts.insert(parts.end(), format.tokens.begin(), format.tokens.end());
  }
  return parts;
}

void ExpectNothingLost(const ParseOptions& options, const std::string& output, Random* random) {
  const ParsedOutput whole = Parse(options, output);
  ASSERT_EQ(whole.raw, output);
  const std::string_view view = output;
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < output.size();) {
    const size_t size = 1 + (*random)() % 7;
    pieces.push_back(view.substr(at, size));
    at += size;
  }
  ASSERT_EQ(ParsePieces(options, pieces), whole) << output;
  for (const ParsedCall& call : whole.calls) {
    // Outputs of a model are UTF-8, changed samples are not. Halves of a surrogate pair are JSON (RFC 8259, 8.2),
    // though not to the library.
    std::string ascii = absl::StrReplaceAll(call.arguments, {{"\\ud", "\\u0"}});
    std::replace_if(
        ascii.begin(), ascii.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, 'x');
    ASSERT_EQ(nlohmann::json::accept(ascii), call.complete) << output << "\n" << call.arguments;
  }
}

TEST(ChatOutput, ChangedSamplesLoseNothing) {
  Random random(29);
  const std::vector<std::string> parts = MarkersAndPunctuation();
  for (int round = 0; round < 40; ++round) {
    for (const Sample& sample : Samples()) {
      const ParseOptions options = {.forms = FormsNamed(sample.reasoning_form, sample.call_form),
                                    .prompt = sample.prompt};
      ExpectNothingLost(options, Changed(sample.output, parts, &random), &random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ChatOutput, SamplesOfOtherFormsLoseNothing) {
  Random random(7);
  for (const Sample& sample : Samples()) {
    for (const ToolFormat& calls : ToolFormats()) {
      for (const char* reasoning : {"none", "qwen3", "gpt_oss", "muse_glimmer"}) {
        const ChatOutputForms forms = FormsNamed(reasoning, calls.name);
        if (!Fit(forms)) continue;
        ExpectNothingLost({.forms = forms, .prompt = sample.prompt}, sample.output, &random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ChatOutput, RandomTextLosesNothing) {
  Random random(3);
  const std::vector<std::string> parts = MarkersAndPunctuation();
  for (int round = 0; round < 400; ++round) {
    std::string output;
    for (size_t i = random() % 40; i > 0; --i) {
      output +=
          random() % 2 == 0 ? parts[random() % parts.size()] : std::string(1, static_cast<char>('a' + random() % 26));
    }
    for (const ToolFormat& calls : ToolFormats()) {
      const bool framed = calls.frame != OutputFrame::kNone;
      const ChatOutputForms forms = {framed ? FindReasoningFormat(calls.name) : nullptr, &calls};
      ExpectNothingLost({.forms = forms}, output, &random);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace dunlin::text
