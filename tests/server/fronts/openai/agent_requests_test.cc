// SPDX-License-Identifier: Apache-2.0
// Bodies in the shape in which coding agents send them: the Codex CLI to /v1/responses, Claude Code to /v1/messages,
// clients of other vendors to /v1/chat/completions. What has no effect is named, what has meaning is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/responses.h"
#include "server/fronts/openai/tokenize.h"
#include "tests/server/fronts/openai/read_request.h"
#include "tests/server/fronts/openai/scripted_output.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;

// The names of the chat's tools.
std::vector<std::string> Tools(const ClientRequest& request) {
  std::vector<std::string> names;
  const std::string& text = ChatOf(request).tools_json;
  if (text.empty()) return names;
  for (const Json& tool : Json::parse(text)) names.push_back(tool["function"]["name"]);
  return names;
}

const char kCodexTools[] = R"("tools":[
    {"type":"function","name":"shell","description":"Runs a command","strict":false,
     "parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}}}},
    {"type":"custom","name":"apply_patch","description":"Edits files","format":{"type":"grammar","syntax":"lark","definition":"x"}},
    {"type":"web_search","external_web_access":false},
    {"type":"local_shell"},
    {"type":"image_generation","output_format":"png"},
    {"type":"mcp","server_label":"notes","server_url":"http://127.0.0.1/"},
    {"type":"next_year","anything":[1]},
    {"type":"namespace","name":"mcp__notes","description":"Notes","tools":[
      {"type":"function","name":"find","description":"Finds a note","defer_loading":true,"parameters":{"type":"object"}},
      {"type":"function","name":"shell","parameters":{"type":"object"}},
      {"type":"custom","name":"free"}]}],
    "tool_choice":"auto","parallel_tool_calls":false)";

std::string CodexBody(const std::string& input, const std::string& more = "") {
  return R"({"model":"m","instructions":"You write code.","input":)" + input + "," + kCodexTools +
         R"(,"reasoning":{"effort":"medium","summary":"auto"},"store":true,"stream":true,
             "include":["reasoning.encrypted_content"],"prompt_cache_key":"7d1","text":{"verbosity":"low"},
             "truncation":"auto","client_metadata":{"installation":"1"})" +
         more + "}";
}

TEST(Codex, FirstRequestIsRead) {
  ClientRequest request;
  const absl::Status status = Read<ResponsesTranslator>(
      CodexBody(R"([{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]},
                    {"type":"message","role":"user","content":[{"type":"input_text","text":"List the files."}]}])"),
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Messages(request), R"([{"role":"system","content":"You write code."},)"
                               R"({"role":"system","content":[{"type":"text","text":"rules"}]},)"
                               R"({"role":"user","content":[{"type":"text","text":"List the files."}]}])");
  EXPECT_THAT(Tools(request), testing::ElementsAre("shell", "find", "mcp__notes__shell"));
  EXPECT_TRUE(ChatOf(request).moves_system_messages);
  EXPECT_EQ(request.ignored.List(),
            "tools[custom], tools[web_search], tools[local_shell], tools[image_generation], tools[mcp], "
            "tools[next_year], tools[].tools[custom]");
}

// Calls of all kinds and their results, as the next request brings them back.
TEST(Codex, HistoryIsRead) {
  ClientRequest request;
  const absl::Status status = Read<ResponsesTranslator>(CodexBody(R"([{"type":"message","role":"user","content":"Go."},
          {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAAA"},
          {"type":"function_call","id":"fc_1","call_id":"c1","name":"shell","arguments":"{}"},
          {"type":"function_call_output","call_id":"c1","output":"a.txt"},
          {"type":"function_call","call_id":"c2","name":"shell","namespace":"mcp__notes","arguments":"{}"},
          {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"note"}]},
          {"type":"custom_tool_call","call_id":"c3","name":"apply_patch","input":"*** Begin"},
          {"type":"custom_tool_call_output","call_id":"c3","output":"Done"},
          {"type":"local_shell_call","call_id":"c4","status":"completed","action":{"type":"exec","command":["ls"]}},
          {"type":"local_shell_call_output","id":"c4","output":"b.txt"},
          {"type":"shell_call","call_id":"c5","action":{"commands":["pwd"]}},
          {"type":"shell_call_output","call_id":"c5","output":[{"stdout":"/"}]},
          {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}},
          {"type":"compaction","encrypted_content":"BBBB"},
          {"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}],"mood":1}])"),
                                                        &request);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<text::ChatMessage>& messages = ChatOf(request).messages;
  ASSERT_EQ(messages.size(), 13U);
  EXPECT_EQ(messages[2].tool_calls[0].name, "shell");
  EXPECT_EQ(messages[3].content, "a.txt");
  EXPECT_EQ(messages[4].tool_calls[0].name, "mcp__notes__shell") << "as it is offered";
  EXPECT_EQ(messages[6].tool_calls[0].name + messages[6].tool_calls[0].arguments_json,
            R"(apply_patch{"input":"*** Begin"})");
  EXPECT_EQ(messages[7].content, "Done");
  EXPECT_EQ(messages[8].tool_calls[0].name + messages[8].tool_calls[0].arguments_json,
            R"(local_shell{"type":"exec","command":["ls"]})");
  EXPECT_EQ(messages[9].tool_call_id + *messages[9].content, "c4b.txt");
  EXPECT_EQ(messages[11].content, R"([{"stdout":"/"}])");
  EXPECT_EQ(messages[12].parts[0].text, "No.");
  EXPECT_THAT(request.ignored.List(), HasSubstr("input[web_search_call], input[compaction], input[].mood"));
}

TEST(Codex, NoInputIsAnEmptyMessageOfTheUser) {
  for (const char* input : {"[]", R"("")"}) {
    ClientRequest request;
    ASSERT_TRUE(
        Read<ResponsesTranslator>(std::string(R"({"model":"m","max_output_tokens":1,"input":)") + input + "}", &request)
            .ok());
    EXPECT_EQ(Messages(request), R"([{"role":"user","content":""}])");
  }
}

TEST(Codex, CallsOfANamespaceComeBackWithIt) {
  ChunkScript script;
  script.Chunk()
      .Tokens(1)
      .Call(0, "call_a", "find", "{}")
      .Chunk()
      .Tokens(1)
      .Call(1, "call_b", "mcp__notes__shell", "{}");
  script.Chunk().Tokens(1).Call(2, "call_c", "shell", "{}").Chunk().Finish().WithToolCalls();
  const std::string stream = Respond<ResponsesTranslator>(CodexBody("[]"), script);
  EXPECT_THAT(stream, HasSubstr(R"("call_id":"call_a","name":"find","namespace":"mcp__notes","arguments":)"));
  EXPECT_THAT(stream, HasSubstr(R"("call_id":"call_b","name":"shell","namespace":"mcp__notes","arguments":)"));
  EXPECT_THAT(stream, HasSubstr(R"("call_id":"call_c","name":"shell","arguments":)"));
  EXPECT_THAT(stream, HasSubstr(R"("store":false)"));
}

// Whatever the order.
TEST(Tools, KeepTheirNamesOutsideOfNamespaces) {
  ClientRequest request;
  ASSERT_TRUE(
      Read<ResponsesTranslator>(
          R"({"model":"m","input":"x","tools":[{"type":"namespace","name":"a","tools":[{"type":"function","name":"f"},
                      {"type":"function","name":"g"}]},{"type":"namespace","name":"b","tools":[{"type":"function",
                      "name":"g"}]},{"type":"function","name":"f"}]})",
          &request)
          .ok());
  EXPECT_THAT(Tools(request), testing::ElementsAre("a__f", "g", "b__g", "f"));
}

TEST(Tools, ThatAreLeftOutCannotBeChosen) {
  const std::string tools =
      R"({"model":"m","input":"x","tools":[{"type":"web_search"},{"type":"function","name":"f"}])";
  const std::pair<const char*, const char*> choices[] = {
      {R"({"type":"web_search"})", "tool_choice.type is \"web_search\""},
      {R"({"type":"custom","name":"f"})", "tool_choice.type is \"custom\""},
      {R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"web_search"}]})",
       "tool_choice allows a tool that is not there"},
      {R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]})",
       "tool_choice.tools[0].type is \"web_search\""},
  };
  for (const auto& [choice, problem] : choices) {
    ClientRequest request;
    const absl::Status status = Read<ResponsesTranslator>(tools + R"(,"tool_choice":)" + choice + "}", &request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << choice;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(problem));
  }
}

TEST(Tools, ThatAreAllowedAreTheChats) {
  const std::string tools =
      R"({"model":"m","input":"x","messages":[],"tools":[{"type":"function","name":"f","function":{"name":"f"}},)"
      R"({"type":"function","name":"g","function":{"name":"g"}}],"tool_choice":{"type":"allowed_tools",)";
  ClientRequest response;
  ASSERT_TRUE(
      Read<ResponsesTranslator>(tools + R"("mode":"required","tools":[{"type":"function","name":"g"}]}})", &response)
          .ok());
  EXPECT_THAT(Tools(response), testing::ElementsAre("g"));
  EXPECT_EQ(response.tool_choice.mode, ClientToolChoice::Mode::kRequired);
  ClientRequest chat;
  ASSERT_TRUE(
      Read<ChatCompletionsTranslator>(
          tools + R"("allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}})", &chat)
          .ok());
  EXPECT_THAT(Tools(chat), testing::ElementsAre("f"));
}

TEST(Tools, ThatCannotBeRunAreRefusedWhereTheServerIsStrict) {
  ClientRequest request;
  EXPECT_EQ(
      engine::StdView(
          Read<ChatCompletionsTranslator>(R"({"tools":[{"type":"web_search"}]})", &request, /*strict=*/true).message()),
      "tools[0].type is \"web_search\"; limit is \"function\": the server runs no tools of its own");
  EXPECT_EQ(engine::StdView(
                Read<AnthropicTranslator>(R"({"tools":[{"type":"web_search"}]})", &request, /*strict=*/true).message()),
            "tools[0].type is \"web_search\"; limit is \"custom\": the server runs no tools of its own");
  EXPECT_EQ(
      engine::StdView(Read<AnthropicTranslator>(
                          R"({"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}]})",
                          &request, /*strict=*/true)
                          .message()),
      "messages[0].content[0].type is \"redacted_thinking\"; limit is blocks of text and images: "
      "models here read text, and some of them images");
}

const char kClaudeCode[] = R"({"model":"m","max_tokens":32000,"stream":true,
    "system":[{"type":"text","text":"You write code.","cache_control":{"type":"ephemeral"}}],
    "metadata":{"user_id":"u"},"temperature":1,"thinking":{"type":"adaptive","display":"omitted"},
    "context_management":{"edits":[]},"output_config":{"effort":"high"},"betas":["a"],"speed":"standard",
    "tools":[{"name":"Read","description":"Reads a file","input_schema":{"type":"object"},"eager_input_streaming":true},
             {"type":"web_search_20250305","name":"web_search","max_uses":8},
             {"type":"tool_search_tool_regex_20251119","name":"search"}],
    "messages":[
      {"role":"user","content":[{"type":"text","text":"Go."}],"id":null,"uuid":"1"},
      {"role":"system","content":"Today is a day."},
      {"role":"assistant","content":[
        {"type":"redacted_thinking","data":"AAAA"},
        {"type":"thinking","thinking":"Hm.","signature":"s"},
        {"type":"text","text":"Reading.","citations":null},
        {"type":"server_tool_use","id":"st1","name":"web_search","input":{"query":"x"}},
        {"type":"web_search_tool_result","tool_use_id":"st1","content":[
          {"type":"web_search_result","title":"T","url":"u","encrypted_content":"e"}]},
        {"type":"bash_code_execution_tool_result","tool_use_id":"st2","content":
          {"type":"bash_code_execution_result","stdout":"out","stderr":"","return_code":0,"content":[]}},
        {"type":"mcp_tool_result","tool_use_id":"st3","content":[{"type":"text","text":"from afar"}]},
        {"type":"tool_use","id":"c1","name":"Read","input":{"path":"a"},"caller":{"type":"direct"}}]},
      {"role":"user","content":[
        {"type":"tool_result","tool_use_id":"c1","is_error":false,"content":[
          {"type":"text","text":"file"},{"type":"tool_reference","tool_name":"Write"},
          {"type":"search_result","source":"s","title":"Title","content":[{"type":"text","text":"hit"}]},
          {"type":"document","source":{"type":"text","media_type":"text/plain","data":"doc"}}]}]},
      {"role":"system","content":[{"type":"text","text":"Be brief."}]}]})";

TEST(ClaudeCode, RequestIsRead) {
  ClientRequest request;
  const absl::Status status = Read<AnthropicTranslator>(kClaudeCode, &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Messages(request),
            R"([{"role":"system","content":[{"type":"text","text":"You write code."}]},)"
            R"({"role":"user","content":[{"type":"text","text":"Go."}]},{"role":"system","content":"Today is a day."},)"
            R"({"role":"assistant","content":[{"type":"text","text":"Reading."},{"type":"text","text":"out"},)"
            R"({"type":"text","text":"from afar"}],"reasoning_content":"Hm.","tool_calls":[{"id":"c1","type":)"
            R"("function","function":{"name":"Read","arguments":"{\"path\":\"a\"}"}}]},)"
            R"({"role":"tool","content":[{"type":"text","text":"file"},{"type":"text","text":"Title"},)"
            R"({"type":"text","text":"hit"},{"type":"text","text":"doc"}],"tool_call_id":"c1"},)"
            R"({"role":"system","content":[{"type":"text","text":"Be brief."}]}])");
  EXPECT_THAT(Tools(request), testing::ElementsAre("Read"));
  EXPECT_TRUE(ChatOf(request).add_generation_prompt);
  EXPECT_EQ(request.ignored.List(),
            "tools[web_search_20250305], tools[tool_search_tool_regex_20251119], messages[].uuid, "
            "messages[].content[redacted_thinking], messages[].content[server_tool_use], "
            "messages[].content[web_search_tool_result], messages[].content[].content[tool_reference]");
  ClientRequest counted;
  ASSERT_TRUE(ReadCountTokens(kClaudeCode, /*strict=*/false, &counted).ok());
  EXPECT_EQ(Messages(counted), Messages(request));
}

TEST(ClaudeCode, MessagesOfWhichNothingIsReadStayEmpty) {
  ClientRequest request;
  ASSERT_TRUE(
      Read<AnthropicTranslator>(
          R"({"model":"m","max_tokens":1,"mcp_servers":[{"type":"url"}],"messages":[{"role":"user","content":"a"},
                      {"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]},
                      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c"},{"type":"next_year"}]}]})",
          &request)
          .ok());
  EXPECT_EQ(Messages(request), R"([{"role":"user","content":"a"},{"role":"assistant","content":""},)"
                               R"({"role":"tool","content":"","tool_call_id":"c"}])");
  EXPECT_EQ(request.ignored.List(),
            "mcp_servers, messages[].content[redacted_thinking], messages[].content[next_year]");
}

TEST(Chats, HistoriesOfOtherVendorsAreRead) {
  ClientRequest request;
  const absl::Status status = Read<ChatCompletionsTranslator>(
      R"({"model":"m","store":true,"verbosity":"low","functions":[],"function_call":"none","web_search_options":null,
          "stream_options":null,"usage":{"include":true},
          "messages":[{"role":"user","content":"a"},
          {"role":"assistant","content":null,"refusal":"No.","audio":null,"function_call":null,"annotations":[],
           "provider_specific_fields":null,"thinking_blocks":[1]},
          {"role":"assistant","content":[{"type":"refusal","refusal":"Never."}],"refusal":null},
          {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","index":0,
           "extra_content":{"google":{"thought_signature":"s"}},"function":{"name":"f","arguments":"{}","parsed":null}},
           {"id":"c2","type":"custom","custom":{"name":"g","input":"x"}}]},
          {"role":"tool","tool_call_id":"c1","content":"1"},
          {"role":"assistant","content":null,"function_call":{"name":"h","arguments":"{}"}},
          {"role":"function","name":"h","content":"2"}]})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(
      Messages(request),
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"No."},)"
      R"({"role":"assistant","content":[{"type":"text","text":"Never."}]},)"
      R"({"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":"{\"input\":\"x\"}"}}]},)"
      R"({"role":"tool","content":"1","tool_call_id":"c1"},)"
      R"({"role":"assistant","tool_calls":[{"type":"function","function":{"name":"h","arguments":"{}"}}]},)"
      R"({"role":"tool","content":"2","name":"h"}])");
  EXPECT_EQ(request.ignored.List(), "usage, messages[].thinking_blocks");
}

// Each place of a body that has members of its own.
// As models write them, and agents bring them back with the error of the tool.
TEST(Chats, ArgumentsThatAreNoObjectAreATextInOne) {
  constexpr struct {
    const char* written;
    const char* read;
  } kRows[] = {
      {R"({\"a\": [1, {}]} )", R"({"a": [1, {}]} )"},
      {R"({\"a\": 1, \"a\": 2})", R"({"a": 1, "a": 2})"},
      {R"()", ""},
      {R"( \n)", ""},
      {R"({\"city\": \"Os)", R"({"input":"{\"city\": \"Os"})"},
      {R"([1])", R"({"input":"[1]"})"},
      {R"({}{})", R"({"input":"{}{}"})"},
      {R"({}\u0000])", R"({"input":"{}\u0000]"})"},
  };
  for (const auto& row : kRows) {
    const std::string function = absl::StrCat(R"("name":"f","arguments":")", row.written, "\"}");
    ClientRequest chat;
    ASSERT_TRUE(Read<ChatCompletionsTranslator>(
                    absl::StrCat(R"({"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c",)",
                                 R"("type":"function","function":{)", function, R"(}]},)",
                                 R"({"role":"assistant","function_call":{)", function, "}]}"),
                    &chat)
                    .ok());
    EXPECT_EQ(ChatOf(chat).messages[0].tool_calls[0].arguments_json, row.read);
    EXPECT_EQ(ChatOf(chat).messages[1].tool_calls[0].arguments_json, row.read);
    ClientRequest responses;
    ASSERT_TRUE(
        Read<ResponsesTranslator>(
            absl::StrCat(R"({"model":"m","input":[{"type":"function_call","call_id":"c",)", function, "]}"), &responses)
            .ok());
    EXPECT_EQ(ChatOf(responses).messages[0].tool_calls[0].arguments_json, row.read);
  }
}

TEST(Members, ThatAreUnknownAreNamedWhereverTheyStand) {
  const std::pair<const char*, const char*> bodies[] = {
      {R"({"messages":[],"response_format":{"type":"json_schema","z":1,"json_schema":{"name":"n","schema":{},"y":1}}})",
       "response_format.z, response_format.json_schema.y"},
      {R"({"messages":[],"stream":true,"stream_options":{"z":1}})", "stream_options.z"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","z":1},{"type":"text","text":"b","z":2}]}]})",
       "messages[].content[].z"},
      {R"({"messages":[],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","z":1,)"
       R"("function":{"name":"f","y":1}}})",
       "tool_choice.z, tool_choice.function.y"},
      {R"({"messages":[],"structured_outputs":{"regex":"a","z":1}})", "structured_outputs.z"},
      {R"({"messages":[],"a b\u0000\r\n":1})", "a?b?x00?r?n"},
  };
  for (const auto& [body, names] : bodies) {
    ClientRequest request;
    const absl::Status status = Read<ChatCompletionsTranslator>(body, &request);
    EXPECT_TRUE(status.ok()) << body << status;
    EXPECT_EQ(request.ignored.List(), names) << body;
  }
  ClientRequest completion;
  ASSERT_TRUE(Read<CompletionsTranslator>(R"({"prompt":"a","z":1})", &completion).ok());
  EXPECT_EQ(completion.ignored.List(), "z");
  ClientEmbedRequest embedding;
  ASSERT_TRUE(EmbeddingsTranslator(ResponseFacts()).Read(R"({"input":"a","z":1})", &embedding).ok());
  EXPECT_EQ(embedding.ignored.List(), "z");
  IgnoredNames ignored;
  TokenizeBody tokens;
  ASSERT_TRUE(ReadTokenize(R"({"prompt":"a","z":1})", &ignored, &tokens).ok());
  EXPECT_EQ(ignored.List(), "z");
}

// instructor sends both: a demanded call is no text that could have the format.
TEST(Instructor, AFormatBesideADemandedCallHasNoEffect) {
  const std::string responses = R"({"model":"m","input":"hi","text":{"format":{"type":"json_schema","name":"Legs",)"
                                R"("schema":{"type":"object"}}},"tools":[{"type":"function","name":"Legs"}],)"
                                R"("tool_choice":)";
  ClientRequest named;
  EXPECT_TRUE(Read<ResponsesTranslator>(responses + R"({"type":"function","name":"Legs"}})", &named).ok());
  EXPECT_FALSE(named.structured_output.has_value());
  EXPECT_EQ(named.ignored.List(), "text.format");
  ClientRequest strict;
  EXPECT_TRUE(Read<ResponsesTranslator>(responses + R"("required"})", &strict, /*strict=*/true).ok());
  EXPECT_TRUE(strict.structured_output.has_value()) << "the plan refuses it";
  ClientRequest free;
  EXPECT_TRUE(Read<ResponsesTranslator>(responses + R"("auto"})", &free).ok());
  ASSERT_TRUE(free.structured_output.has_value());
  EXPECT_EQ(free.structured_output->text, R"({"type":"object"})");
  const std::string chat = R"({"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f"}}],)"
                           R"("tool_choice":"required",)";
  ClientRequest object;
  EXPECT_TRUE(Read<ChatCompletionsTranslator>(chat + R"("response_format":{"type":"json_object"}})", &object).ok());
  EXPECT_FALSE(object.structured_output.has_value());
  EXPECT_EQ(object.ignored.List(), "response_format");
  ClientRequest regex;
  EXPECT_TRUE(Read<ChatCompletionsTranslator>(chat + R"("structured_outputs":{"regex":"a"}})", &regex).ok());
  EXPECT_TRUE(regex.structured_output.has_value()) << "it is of the whole output, and the plan refuses it";
}

}  // namespace
}  // namespace dunlin::server
