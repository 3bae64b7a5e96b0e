// SPDX-License-Identifier: Apache-2.0
// Model names that choose a profile: what they stand for, what is refused and how it is said.
#include "server/serving/resolve/profile_alias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "server/serving/resolve/resolve.h"
#include "tests/server/serving/fake_front.h"

namespace dunlin::server {
namespace {

using engine::AttentionBackend;
using engine::Precision;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct Row {
  const char* name;
  AttentionBackend backend;  // that runs
  Precision precision;
};

TEST(ProfileAlias, ChoosesWhatRuns) {
  const Row rows[] = {
      {"tiny", AttentionBackend::kFlash, Precision::kFp32},
      {"tiny@math", AttentionBackend::kMath, Precision::kFp32},
      {"tiny@bf16", AttentionBackend::kFlash, Precision::kBf16},
      {"tiny@efficient-bf16", AttentionBackend::kEfficient, Precision::kBf16},
      {"tiny:latest", AttentionBackend::kFlash, Precision::kFp32},
      {"tiny@math-bf16:latest", AttentionBackend::kMath, Precision::kBf16},
  };
  Harness harness;
  for (const Row& row : rows) {
    ClientRequest request = ClientTextRequest("abc", 2);
    request.model = row.name;
    const FakeResponse response = harness.Generate(request);
    ASSERT_TRUE(response.status.ok()) << row.name << ": " << response.status;
    const std::optional<engine::ExecutionProfile>& profile = response.chunks.front().profile;
    ASSERT_TRUE(profile.has_value()) << row.name;
    EXPECT_EQ(profile->attention_backend, row.backend) << row.name;
    EXPECT_EQ(profile->precision, row.precision) << row.name;
  }
  EXPECT_EQ(harness.observer.WaitFor(6).back().model, "tiny") << "metrics know models alone";
}

TEST(ProfileAlias, AnExplicitFieldMayRepeatTheNameButNotContradictIt) {
  Harness harness;
  ClientRequest request = ClientTextRequest("abc", 2);
  request.model = "tiny@math-bf16";
  request.execution.precision = Precision::kBf16;
  EXPECT_TRUE(harness.Generate(request).status.ok());
  request.execution.precision = Precision::kFp32;
  const absl::Status precision = harness.Generate(request).status;
  EXPECT_EQ(precision.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(precision.message()), HasSubstr("precision is fp32, but model is tiny@math-bf16"));
  request.execution = {};
  request.execution.attention_backend = AttentionBackend::kFlash;
  const absl::Status backend = harness.Generate(request).status;
  EXPECT_EQ(backend.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(backend.message()), HasSubstr("attention_backend is flash, but model is tiny@math-bf16"));
}

TEST(ProfileAlias, ABadSuffixNamesWhatExists) {
  Harness harness;
  for (const char* name : {"tiny@", "tiny@fast", "tiny@flash-", "tiny@bf16-flash", "tiny@flash-fp32-x", "tiny@-fp32"}) {
    ClientRequest request = ClientTextRequest("abc", 2);
    request.model = name;
    const absl::Status status = harness.Generate(request).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("tiny@flash-fp32")) << name;
  }
  ClientRequest unknown = ClientTextRequest("abc", 2);
  unknown.model = "nobody@flash";
  EXPECT_EQ(harness.Generate(unknown).status.code(), absl::StatusCode::kNotFound);
}

TEST(ProfileAlias, AProfileThatIsNotSupportedIsRefusedWithItsReasons) {
  Harness harness;
  ClientRequest request = ClientTextRequest("abc", 2);
  request.model = "tiny@flash-fp8";
  EXPECT_EQ(harness.Generate(request).status.code(), absl::StatusCode::kFailedPrecondition) << "it is not resident";
}

TEST(ProfileAlias, ListsTheSupportedProfiles) {
  Harness harness;
  const std::vector<std::string> aliases = ProfileAliases(harness.models.model("tiny"), "tiny");
  EXPECT_THAT(aliases, Contains("tiny@flash-fp32"));
  EXPECT_THAT(aliases, Contains("tiny@math-bf16"));
  EXPECT_THAT(aliases, Not(Contains("tiny@flash-fp8")));
}

}  // namespace
}  // namespace dunlin::server
