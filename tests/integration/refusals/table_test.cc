// SPDX-License-Identifier: Apache-2.0
// The table is complete: every field that a client can set wrongly has a row, and every reason for a refusal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "server/fronts/dunlin_v1/field_names.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "tests/integration/refusals/row.h"

namespace dunlin::integration {
namespace {

using server::ClientField;
using server::Reason;

constexpr engine::Field kNoRows[] = {
    // protobuf refuses a string that is not UTF-8 before these are checked for it.
    ClientField::kChatMessage,
    ClientField::kChatPartText,
    // Both values are valid.
    ClientField::kParallelToolCalls,
    ClientField::kRawChatOutput,
    ClientField::kJsonObject,
    // Of Rerank, which none of these models answers; tests of the openai and dunlin.v1 fronts have its refusals.
    ClientField::kQuery,
    ClientField::kTopN,
};

constexpr Reason kReasonsWithoutRows[] = {
    // Of the server's state.
    Reason::kLoading,
    Reason::kDraining,
    Reason::kShutdown,
    Reason::kDeliveryBehind,
    Reason::kPoolTooSmall,
    Reason::kDeviceFailed,
    Reason::kStalled,
    Reason::kInternal,
    // Of models that an administrator loads and unloads: tests/integration/process/live_models_test.cc.
    Reason::kModelNotServed,
    Reason::kLoadFailed,
    Reason::kModelMemory,
    // Of methods that this server answers with a sentence: tests/server/fronts.
    Reason::kNotImplemented,
    Reason::kUnknownAdapter,
    // Of adapters that an administrator loads: tests/integration/process/adapters_test.cc.
    Reason::kAdapterExists,
    // The client's gRPC says so itself, without details.
    Reason::kDeadline,
    Reason::kCancelled,
    // Of keys, which the attacked server does not have: tests/server/keys asks every endpoint.
    Reason::kUnauthenticated,
    Reason::kPermissionDenied,
    Reason::kRequestQuota,
    Reason::kTokenQuota,
    Reason::kConcurrencyQuota,
};

// Whether `text` begins with the name, in which each '*' stands for digits, and a word ends there.
bool BeginsWithName(std::string_view text, std::string_view name) {
  for (const char c : name) {
    if (c != '*') {
      if (text.empty() || text.front() != c) return false;
      text.remove_prefix(1);
      continue;
    }
    const auto digits = std::find_if(text.begin(), text.end(), [](char d) { return d < '0' || d > '9'; });
    if (digits == text.begin()) return false;
    text.remove_prefix(static_cast<size_t>(digits - text.begin()));
  }
  return text.empty() || text.front() == ' ' || text.front() == ';';
}

bool Names(const Answer& answer, std::string_view name) {
  if (answer.field.empty()) return false;
  for (size_t at = 0; at < answer.message.size(); ++at) {
    if ((at == 0 || answer.message[at - 1] == ' ') && BeginsWithName(answer.message.substr(at), name)) return true;
  }
  return false;
}

bool HasRow(engine::Field field) {
  for (const Group& group : Groups()) {
    for (const CallRow& row : group.calls) {
      for (const server::FieldNames* names :
           {&server::kGenerateFieldNames, &server::kEmbedFieldNames, &server::kTokenizerFieldNames}) {
        if (Names(row.answer, (*names)[field])) return true;
      }
    }
  }
  return false;
}

TEST(Table, NamesEveryFieldThatAClientCanSetWrongly) {
  for (uint8_t i = 0; i < server::kNumFields; ++i) {
    const engine::Field field(i);
    const bool exempt = std::find(std::begin(kNoRows), std::end(kNoRows), field) != std::end(kNoRows);
    EXPECT_NE(HasRow(field), exempt) << server::kGenerateFieldNames[field];
  }
}

bool HasRow(Reason reason) {
  for (const Group& group : Groups()) {
    for (const CallRow& row : group.calls) {
      if (row.answer.reason == server::Traits(reason).name) return true;
    }
  }
  return false;
}

TEST(Table, HasEveryReasonThatAClientCanCause) {
  for (size_t i = 0; i <= static_cast<size_t>(Reason::kInternal); ++i) {
    const auto reason = static_cast<Reason>(i);
    const auto* end = std::end(kReasonsWithoutRows);
    EXPECT_NE(HasRow(reason), std::find(std::begin(kReasonsWithoutRows), end, reason) != end)
        << server::Traits(reason).name;
  }
}

TEST(Table, HasManyCallsWithNamesOfTheirOwn) {
  size_t num_refused = 0;
  for (const Group& group : Groups()) {
    std::set<std::string> names;
    for (const CallRow& row : group.calls) {
      names.insert(row.name);
      if (row.answer.code != grpc::StatusCode::OK) ++num_refused;
    }
    for (const ConnectionRow& row : group.connections) names.insert(row.name);
    EXPECT_EQ(names.size(), group.calls.size() + group.connections.size()) << group.name;
  }
  EXPECT_GE(num_refused, 200U);
}

}  // namespace
}  // namespace dunlin::integration
