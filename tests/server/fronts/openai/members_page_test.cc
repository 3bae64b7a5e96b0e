// SPDX-License-Identifier: Apache-2.0
// The lists of docs/openai_members.md are what the tables of fields say, and the tables have every member that the
// APIs' references have. DUNLIN_UPDATE_GOLDENS=1 writes the lists anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_input.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/rerank.h"
#include "server/fronts/openai/responses_input.h"

namespace dunlin::server {
namespace {

constexpr char kPage[] = DUNLIN_SOURCE_DIR "/docs/openai_members.md";
constexpr size_t kMaxColumns = 118;

// What comes before it is written by hand.
constexpr char kMarker[] = "<!-- What follows is written by: DUNLIN_UPDATE_GOLDENS=1 front_openai_test -->\n";

struct Member {
  std::string name;
  FieldUse use;
  std::string reason;
  std::string neutral;
};

struct Route {
  const char* path;
  const char* reference;  // its members, separated by spaces
  std::vector<Member> members;
};

template <class Target>
std::vector<Member> MembersOf(std::span<const FieldTable<Target>> tables) {
  std::vector<Member> members;
  for (const FieldTable<Target>& table : tables) {
    for (const FieldRow<Target>& row : table) {
      members.push_back({std::string(row.name), row.use, std::string(row.reason), std::string(row.neutral)});
    }
  }
  return members;
}

template <class Target>
std::vector<Member> MembersOf(FieldTable<Target> table) {
  const FieldTable<Target> tables[] = {table};
  return MembersOf(std::span<const FieldTable<Target>>(tables));
}

// The references are those of the openai package 3.57, the anthropic package 2.14 (betas too) and the cohere
// package 7.3.
std::vector<Route> Routes() {
  return {
      {"/v1/chat/completions",
       "messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens "
       "max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key "
       "prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed "
       "service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity "
       "web_search_options",
       MembersOf(ChatCompletionsFields())},
      {"/v1/completions",
       "model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream "
       "stream_options suffix temperature top_p user",
       MembersOf(CompletionsFields())},
      {"/v1/responses",
       "access_programs background background_options context_management conversation image include input instructions "
       "max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt "
       "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store "
       "stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user client_metadata",
       MembersOf(ResponsesFields())},
      {"/v1/messages",
       "max_tokens messages model billing_policy cache_control compaction container context_management diagnostics "
       "fallback_credit_token fallbacks inference_geo mcp_servers metadata output_config output_format service_tier "
       "speed stop_sequences stream system temperature thinking thread tool_choice tools top_k top_p betas "
       "user_profile_id workspace_id",
       MembersOf(MessagesFields())},
      {"/v1/embeddings", "input model dimensions encoding_format user", MembersOf(EmbeddingsFields())},
      {"/v1/rerank",
       "model query documents top_n max_tokens_per_doc relevant_spans priority return_documents max_chunks_per_doc "
       "rank_fields",
       MembersOf(RerankFields())},
  };
}

// "Title: `a`, `b`.", in lines of kMaxColumns.
void AppendNames(const char* title, const Route& route, FieldUse use, std::string* page) {
  std::string line = absl::StrCat(title, ":");
  bool any = false;
  for (const Member& member : route.members) {
    if (member.use != use) continue;
    if (any) line.push_back(',');
    any = true;
    const std::string word = absl::StrCat("`", member.name, "`");
    if (line.size() + word.size() + 2 > kMaxColumns) {
      absl::StrAppend(page, line, "\n");
      line = word;
    } else {
      absl::StrAppend(&line, " ", word);
    }
  }
  absl::StrAppend(page, line, any ? ".\n\n" : " none.\n\n");
}

std::string Lists() {
  std::string page;
  for (const Route& route : Routes()) {
    absl::StrAppend(&page, "\n## ", route.path, "\n\n");
    AppendNames("Honoured", route, FieldUse::kHonoured, &page);
    AppendNames("Accepted without effect", route, FieldUse::kIgnored, &page);
    absl::StrAppend(&page, "| refused | but for | because |\n|---|---|---|\n");
    for (const Member& member : route.members) {
      if (member.use != FieldUse::kRefused) continue;
      const std::string neutral = member.neutral.empty() ? "" : absl::StrCat("`", member.neutral, "`");
      absl::StrAppend(&page, "| `", member.name, "` | ", neutral, " | ", member.reason, " |\n");
    }
  }
  return page;
}

TEST(MembersPage, IsWhatTheTablesSay) {
  std::ifstream stream(kPage);
  std::stringstream written;
  written << stream.rdbuf();
  const std::string page = written.str();
  const size_t end = page.find(kMarker);
  ASSERT_NE(end, std::string::npos);
  const std::string expected = page.substr(0, end) + kMarker + Lists();
  if (std::getenv("DUNLIN_UPDATE_GOLDENS") != nullptr) std::ofstream(kPage) << expected;
  EXPECT_EQ(page, expected) << "where the change is meant: run this test with DUNLIN_UPDATE_GOLDENS=1";
}

TEST(MembersPage, HasEveryMemberOfTheReferences) {
  for (const Route& route : Routes()) {
    std::set<std::string> names;
    for (const Member& member : route.members) names.insert(member.name);
    for (const absl::string_view name : absl::StrSplit(route.reference, ' ')) {
      EXPECT_TRUE(names.contains(std::string(name))) << route.path << ": " << name;
    }
  }
}

}  // namespace
}  // namespace dunlin::server
