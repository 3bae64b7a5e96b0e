// SPDX-License-Identifier: Apache-2.0
// Every sample at once, byte by byte, cut in two at every place and in three at many: always the same comes out.
#include "tests/text/chat_output/samples.h"

#include <gtest/gtest.h>

#include <set>

namespace dunlin::text {
namespace {

ParseOptions OptionsOf(const Sample& sample) {
  return {.forms = FormsNamed(sample.reasoning_form, sample.call_form), .prompt = sample.prompt};
}

TEST(ChatOutput, SamplesAreReadAtOnce) {
  for (const Sample& sample : Samples()) {
    SCOPED_TRACE(sample.name);
    const ParsedOutput parsed = Parse(OptionsOf(sample), sample.output);
    EXPECT_EQ(parsed.text, sample.text);
    EXPECT_EQ(parsed.reasoning, sample.reasoning);
    EXPECT_EQ(parsed.raw, sample.output);
    const std::vector<ParsedCall> complete = parsed.complete_calls();
    ASSERT_EQ(complete.size(), sample.calls.size());
    for (size_t i = 0; i < complete.size(); ++i) {
      EXPECT_EQ(complete[i].name, sample.calls[i].name);
      EXPECT_EQ(complete[i].arguments, sample.calls[i].arguments);
      EXPECT_EQ(complete[i].id, sample.calls[i].id);
      EXPECT_TRUE(nlohmann::json::parse(complete[i].arguments, nullptr, false).is_object());
    }
  }
}

TEST(ChatOutput, EveryFormHasSamples) {
  std::set<std::string> calls;
  std::set<std::string> reasoning;
  for (const Sample& sample : Samples()) {
    if (!sample.calls.empty()) calls.insert(sample.call_form);
    if (*sample.reasoning != '\0' || std::string(sample.reasoning_form) == "qwen3")
      reasoning.insert(sample.reasoning_form);
  }
  for (const ToolFormat& format : ToolFormats()) EXPECT_EQ(calls.count(format.name), 1U) << format.name;
  for (const ReasoningFormat& format : ReasoningFormats()) EXPECT_EQ(reasoning.count(format.name), 1U) << format.name;
}

TEST(ChatOutput, SamplesAreReadByteByByte) {
  for (const Sample& sample : Samples()) {
    const ParseOptions options = OptionsOf(sample);
    EXPECT_EQ(ParseBytewise(options, sample.output), Parse(options, sample.output)) << sample.name;
  }
}

TEST(ChatOutput, SamplesAreReadInTwoPiecesCutAnywhere) {
  for (const Sample& sample : Samples()) {
    const ParseOptions options = OptionsOf(sample);
    const std::string_view output = sample.output;
    const ParsedOutput whole = Parse(options, output);
    for (size_t cut = 0; cut <= output.size(); ++cut) {
      ASSERT_EQ(ParsePieces(options, {output.substr(0, cut), output.substr(cut)}), whole)
          << sample.name << " at " << cut;
    }
  }
}

TEST(ChatOutput, SamplesAreReadInThreePieces) {
  for (const Sample& sample : Samples()) {
    const ParseOptions options = OptionsOf(sample);
    const std::string_view output = sample.output;
    const ParsedOutput whole = Parse(options, output);
    for (size_t first = 0; first < output.size(); first += 3) {
      for (size_t length = 1; first + length <= output.size(); length += 5) {
        ASSERT_EQ(ParsePieces(options,
                              {output.substr(0, first), output.substr(first, length), output.substr(first + length)}),
                  whole)
            << sample.name << " at " << first << ", " << length;
      }
    }
  }
}

// Cut after every byte: what is left is a prefix of the whole, or text.
TEST(ChatOutput, TruncatedSamplesLoseNothing) {
  for (const Sample& sample : Samples()) {
    const ParseOptions options = OptionsOf(sample);
    const std::string_view output = sample.output;
    for (size_t end = 0; end <= output.size(); ++end) {
      const ParsedOutput parsed = Parse(options, output.substr(0, end));
      ASSERT_EQ(parsed.raw, output.substr(0, end)) << sample.name;
      ASSERT_EQ(ParseBytewise(options, output.substr(0, end)), parsed) << sample.name << " up to " << end;
      for (const ParsedCall& call : parsed.calls) {
        const bool is_object = nlohmann::json::parse(call.arguments, nullptr, false).is_object();
        ASSERT_EQ(is_object, call.complete) << sample.name << " up to " << end << ": " << call.arguments;
      }
    }
  }
}

TEST(ChatOutput, ArgumentsComeAsTheyAreWritten) {
  ParsedOutput so_far;
  const ParseOptions options = {.forms = FormsNamed("", "hermes")};
  const std::string begun = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Le";
  so_far = Parse(options, begun);
  ASSERT_EQ(so_far.calls.size(), 1U);
  EXPECT_EQ(so_far.calls[0].arguments, "{\"city\": \"Le");
  EXPECT_FALSE(so_far.calls[0].complete);
}

TEST(ChatOutput, OneCallEndsAnOutputWithoutParallelCalls) {
  for (const char* form : {"hermes", "granite"}) {
    const ParsedOutput parsed =
        Parse({.forms = FormsNamed("", form), .parallel = false},
              "Hm.<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call><tool_call>{\"name\": "
              "\"ping\", \"arguments\": {}}</tool_call> more");
    EXPECT_EQ(parsed.calls.size(), 1U);
    EXPECT_EQ(parsed.text, "Hm.");
  }
  const ParsedOutput harmony = Parse(
      {.forms = FormsNamed("gpt_oss", "gpt_oss"), .parallel = false},
      "<|channel|>commentary to=functions.ping<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>x");
  EXPECT_EQ(harmony.calls.size(), 1U);
  EXPECT_EQ(harmony.text, "");
}

}  // namespace
}  // namespace dunlin::text
