// SPDX-License-Identifier: Apache-2.0
// From the command line of `dunlin generate` to its request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tools/cli/generate_options.h"

namespace dunlin::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  std::string error;  // of the parser or of MakeRequest; "": none
  v1::GenerateRequest request;
};

Parsed Parse(std::vector<std::string> arguments) {
  CLI::App app;
  GenerateOptions options;
  AddGenerateOptions(&app, &options);
  arguments.insert(arguments.end(), {"--model", "m"});
  std::reverse(arguments.begin(), arguments.end());
  Parsed parsed;
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    parsed.error = error.what();
    return parsed;
  }
  absl::StatusOr<v1::GenerateRequest> request = MakeRequest(options);
  if (request.ok()) {
    parsed.request = *std::move(request);
  } else {
    parsed.error = std::string(request.status().message());
  }
  return parsed;
}

TEST(RequestOptions, EverySamplingFieldHasAnOption) {
  const Parsed parsed = Parse({"--temperature",
                               "0.5",
                               "--top-k",
                               "3",
                               "--top-p",
                               "0.9",
                               "--min-p",
                               "0.1",
                               "--repetition-penalty",
                               "1.5",
                               "--presence-penalty",
                               "-1",
                               "--frequency-penalty",
                               "0.25",
                               "--logit-bias",
                               "11=-100,12=2.5",
                               "--logit-bias",
                               "13=1",
                               "--seed",
                               "18446744073709551615",
                               "--n",
                               "2",
                               "--allowed-token-ids",
                               "1,2",
                               "--bad-word",
                               "no",
                               "--bad-word",
                               "never",
                               "--bad-words-ids",
                               "4,5",
                               "--bad-words-ids",
                               "6",
                               "--ignore-model-bans",
                               "hi"});
  ASSERT_EQ(parsed.error, "");
  const v1::Sampling& sampling = parsed.request.sampling();
  EXPECT_EQ(sampling.logit_bias_size(), 3);
  EXPECT_EQ(sampling.logit_bias().at(11), -100);
  EXPECT_EQ(sampling.logit_bias().at(12), 2.5);
  EXPECT_EQ(sampling.seed(), 18446744073709551615U);
  EXPECT_EQ(sampling.n(), 2);
  EXPECT_THAT(sampling.allowed_token_ids(), ElementsAre(1, 2));
  EXPECT_THAT(sampling.bad_words(), ElementsAre("no", "never"));
  ASSERT_EQ(sampling.bad_words_ids_size(), 2);
  EXPECT_THAT(sampling.bad_words_ids(0).ids(), ElementsAre(4, 5));
  EXPECT_TRUE(sampling.ignore_model_bans());
  // A field of Sampling that no option sets would stay at its default.
  const auto* descriptor = v1::Sampling::descriptor();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  v1::Sampling::GetReflection()->ListFields(sampling, &set);
  EXPECT_EQ(set.size(), static_cast<size_t>(descriptor->field_count()));
  EXPECT_EQ(parsed.request.text(), "hi");
}

TEST(RequestOptions, EveryStoppingAndOutputFieldHasAnOption) {
  const Parsed parsed = Parse({"--max-tokens",
                               "9",
                               "--min-tokens",
                               "1",
                               "--stop",
                               "a",
                               "--stop",
                               "b",
                               "--stop-token-ids",
                               "1,2",
                               "--ignore-eos",
                               "--clamp-max-tokens",
                               "--include-stop",
                               "--logprobs",
                               "2",
                               "--prompt-logprobs",
                               "1",
                               "--keep-special-tokens",
                               "--echo",
                               "--chat",
                               "--raw-chat-output",
                               "hi"});
  ASSERT_EQ(parsed.error, "");
  std::vector<const google::protobuf::FieldDescriptor*> set;
  v1::Stopping::GetReflection()->ListFields(parsed.request.stopping(), &set);
  EXPECT_EQ(set.size(), static_cast<size_t>(v1::Stopping::descriptor()->field_count()));
  v1::OutputOptions::GetReflection()->ListFields(parsed.request.output(), &set);
  EXPECT_EQ(set.size(), static_cast<size_t>(v1::OutputOptions::descriptor()->field_count()) - 1) << "but omit_text";
  EXPECT_TRUE(Parse({"--omit-text", "--json", "hi"}).request.output().omit_text());
}

TEST(RequestOptions, InputAndScheduling) {
  const v1::GenerateRequest request = Parse({"--parse-special-tokens", "--truncate-prompt-tokens", "5", "--priority",
                                             "-3", "--cache-salt", "s", "--request-id", "r", "hi"})
                                          .request;
  EXPECT_TRUE(request.parse_special_tokens());
  EXPECT_EQ(request.truncate_prompt_tokens(), 5);
  EXPECT_EQ(request.priority(), -3);
  EXPECT_EQ(request.cache_salt(), "s");
  EXPECT_EQ(request.request_id(), "r");
  EXPECT_FALSE(request.has_structured_output());
  EXPECT_TRUE(Parse({"--parse-special-tokens", "--chat", "hi"}).request.chat().parse_special_tokens());
}

TEST(RequestOptions, StructuredOutput) {
  EXPECT_EQ(Parse({"--json-schema", "{}", "hi"}).request.structured_output().json_schema(), "{}");
  EXPECT_TRUE(Parse({"--json-object", "hi"}).request.structured_output().json_object());
  const v1::GenerateRequest empty = Parse({"--regex", "", "hi"}).request;
  EXPECT_EQ(empty.structured_output().constraint_case(), v1::StructuredOutput::kRegex) << "for the server to judge";
  EXPECT_THAT(Parse({"--choice", "a b", "--choice", "c", "hi"}).request.structured_output().choice().texts(),
              ElementsAre("a b", "c"));
  const std::string path = ::testing::TempDir() + "dunlin_request_options_test" + std::to_string(getpid());
  std::ofstream(path) << "start: \"a\"\n";
  EXPECT_EQ(Parse({"--grammar", path, "hi"}).request.structured_output().grammar(), "start: \"a\"\n");
  EXPECT_EQ(Parse({"--json-schema", "@" + path, "hi"}).request.structured_output().json_schema(), "start: \"a\"\n");
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(Parse({"--grammar", path, "hi"}).error, "") << "an empty file is an empty grammar";
  std::remove(path.c_str());
  EXPECT_THAT(Parse({"--grammar", path, "hi"}).error, AllOf(HasSubstr("--grammar: cannot read"), HasSubstr(path)));
  EXPECT_THAT(Parse({"--json-schema", "@/", "hi"}).error, HasSubstr("--json-schema: cannot read /"));
}

TEST(RequestOptions, ThePromptMayStandInAFile) {
  const std::string path = ::testing::TempDir() + "dunlin_prompt_file_test" + std::to_string(getpid());
  std::ofstream(path) << "Once\n";
  EXPECT_EQ(Parse({"--prompt-file", path}).request.text(), "Once\n");
  EXPECT_EQ(Parse({"--prompt-file", path, "--chat"}).request.chat().messages(0).content(), "Once\n");
  EXPECT_THAT(Parse({"--prompt-file", path, "hi"}).error, HasSubstr("give one of a prompt, --prompt-file"));
  EXPECT_THAT(Parse({"--prompt-file", path, "--token-ids", "1"}).error, HasSubstr("--prompt-file, --token-ids"));
  std::remove(path.c_str());
  EXPECT_THAT(Parse({"--prompt-file", path}).error, HasSubstr("--prompt-file: cannot read"));
  EXPECT_EQ(Parse({"\xff"}).error, "the prompt is not UTF-8");
}

TEST(RequestOptions, ImagesComeBeforeThePromptOfAChat) {
  const std::string path = ::testing::TempDir() + "dunlin_image_option_test" + std::to_string(getpid());
  const std::string bytes("\x89PNG\0\xff", 6);
  std::ofstream(path, std::ios::binary) << bytes;
  const v1::Chat chat = Parse({"--image", path, "--image", path, "what?"}).request.chat();
  ASSERT_EQ(chat.messages_size(), 1);
  ASSERT_EQ(chat.messages(0).parts_size(), 3);
  EXPECT_EQ(chat.messages(0).role(), "user");
  EXPECT_FALSE(chat.messages(0).has_content());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(chat.messages(0).parts(i).type(), "image");
    EXPECT_EQ(chat.messages(0).parts(i).image(), bytes);
  }
  EXPECT_EQ(chat.messages(0).parts(2).text(), "what?");
  std::remove(path.c_str());
  EXPECT_THAT(Parse({"--image", path, "what?"}).error, AllOf(HasSubstr("--image: "), HasSubstr("No such file")));
  EXPECT_THAT(Parse({"--image", "/", "what?"}).error, HasSubstr("not a regular file"));
}

TEST(RequestOptions, NamesOfProfilesAreTakenInAnyCase) {
  const v1::GenerateRequest request =
      Parse({"--precision", "FP8", "--attention-backend", "Math", "--device", "CPU", "hi"}).request;
  EXPECT_EQ(request.execution().precision(), v1::PRECISION_FP8);
  EXPECT_EQ(request.execution().attention_backend(), v1::ATTENTION_BACKEND_MATH);
  EXPECT_EQ(request.execution().device(), v1::DEVICE_CPU);
  EXPECT_THAT(Parse({"--precision", "nf4", "hi"}).error, HasSubstr("nf4 not in {auto,fp32"));
}

TEST(RequestOptions, ToolChoices) {
  const auto choice = [](const std::string& word) {
    return Parse({"--tools", "[]", "--tool-choice", word, "--no-parallel-tool-calls", "--chat", "hi"}).request.chat();
  };
  EXPECT_EQ(choice("auto").tool_choice().mode(), v1::ToolChoice::MODE_AUTO);
  EXPECT_EQ(choice("none").tool_choice().mode(), v1::ToolChoice::MODE_NONE);
  EXPECT_EQ(choice("required").tool_choice().mode(), v1::ToolChoice::MODE_REQUIRED);
  EXPECT_EQ(choice("f").tool_choice().mode(), v1::ToolChoice::MODE_NAMED);
  EXPECT_EQ(choice("f").tool_choice().name(), "f");
  EXPECT_TRUE(choice("f").has_parallel_tool_calls());
  EXPECT_FALSE(choice("f").parallel_tool_calls());
  EXPECT_FALSE(Parse({"--chat", "hi"}).request.chat().has_tool_choice());
}

struct Conflict {
  std::vector<std::string> arguments;
  const char* first;
  const char* second;
};

TEST(RequestOptions, ConflictsNameBoth) {
  const Conflict conflicts[] = {
      {{"--json-schema", "{}", "--regex", "x", "hi"}, "--json-schema", "--regex"},
      {{"--json-object", "--json-schema", "{}", "hi"}, "--json-object", "--json-schema"},
      {{"--choice", "a", "--grammar", "f", "hi"}, "--choice", "--grammar"},
      {{"--regex", "x", "--choice", "a", "hi"}, "--regex", "--choice"},
      {{"--tools", "[]", "--tool-choice", "f", "--regex", "x", "--chat", "hi"}, "--tool-choice f", "--regex"},
      {{"--tool-choice", "auto", "--chat", "hi"}, "--tool-choice", "--tools"},
      {{"--no-parallel-tool-calls", "--chat", "hi"}, "--no-parallel-tool-calls", "--tools"},
      {{"--tools", "[]", "hi"}, "--tools", "--chat"},
      {{"--raw-chat-output", "hi"}, "--raw-chat-output", "--chat"},
      {{"--chat", "--messages", "[]", "hi"}, "--chat", "--messages"},
      {{"--image", "f", "--messages", "[]", "hi"}, "--image", "--messages"},
      {{"--image", "f"}, "--image", "prompt"},
      {{"--token-ids", "1", "--messages", "[]"}, "--token-ids", "--messages"},
      {{"--token-ids", "1", "--parse-special-tokens"}, "--token-ids", "--parse-special-tokens"},
      {{"--omit-text", "hi"}, "--omit-text", "--json"},
      {{"--omit-text", "--json", "--stop", "a", "hi"}, "--omit-text", "--stop"},
      {{"--omit-text", "--json", "--echo", "hi"}, "--omit-text", "--echo"},
      {{"--show-prompt", "hi"}, "--show-prompt", "--json"},
      {{"--logit-bias", "11=1,11=2", "hi"}, "--logit-bias", "11 twice"},
      {{"--logit-bias", "11", "hi"}, "--logit-bias 11", "ID=BIAS"},
      {{"--bad-words-ids", "1,x", "hi"}, "--bad-words-ids 1,x", "token ids"},
  };
  for (const Conflict& conflict : conflicts) {
    EXPECT_THAT(Parse(conflict.arguments).error, AllOf(HasSubstr(conflict.first), HasSubstr(conflict.second)));
  }
}

TEST(RequestOptions, ChoicesThatConstrainNothingGoWithAStructure) {
  EXPECT_EQ(Parse({"--tools", "[]", "--tool-choice", "auto", "--json-object", "--chat", "hi"}).error, "");
  EXPECT_EQ(Parse({"--tools", "[]", "--tool-choice", "none", "--json-object", "--chat", "hi"}).error, "");
}

}  // namespace
}  // namespace dunlin::cli
