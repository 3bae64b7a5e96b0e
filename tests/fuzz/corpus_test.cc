// SPDX-License-Identifier: Apache-2.0
// Every target runs the inputs that it is known by: what once broke something, and what reaches all of its door. The
// same functions as in libFuzzer's programs, without its engine.
#include "tests/fuzz/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/fuzz/fuzz_targets.h"

namespace dunlin::fuzz {
namespace {

const FuzzTarget kTargets[] = {
#define DUNLIN_FUZZ_TARGET(name, function) {#name, &function},
#include "tests/fuzz/targets.inc"
#undef DUNLIN_FUZZ_TARGET
};

class FuzzCorpus : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzCorpus, RunsWithoutAFault) {
  const FuzzTarget& target = GetParam();
  const std::vector<CorpusInput> inputs = CorpusOf(target.name);
  ASSERT_FALSE(inputs.empty()) << "a target without an input: corpus/" << target.name;
  EXPECT_EQ(target.run(nullptr, 0), 0);
  for (const CorpusInput& input : inputs) {
    SCOPED_TRACE(input.name);
    // Bytes of their own, so that a read behind their end is outside of what was allocated.
    const std::vector<uint8_t> bytes(input.bytes.begin(), input.bytes.end());
    EXPECT_EQ(target.run(bytes.data(), bytes.size()), 0);
    EXPECT_EQ(target.run(bytes.data(), bytes.size() / 2), 0);
  }
}

std::string NameOf(const testing::TestParamInfo<FuzzTarget>& target) {
  return target.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus, testing::ValuesIn(kTargets), NameOf);

TEST(FuzzCorpusFiles, BelongToATarget) {
  std::set<std::string> names;
  for (const FuzzTarget& target : kTargets) EXPECT_TRUE(names.insert(target.name).second) << target.name;
  for (const auto& entry : std::filesystem::directory_iterator(DUNLIN_SOURCE_DIR "/tests/fuzz/corpus")) {
    EXPECT_TRUE(names.contains(entry.path().filename().string())) << entry.path();
  }
}

TEST(FuzzCorpusFiles, EscapesStandForBytes) {
  EXPECT_EQ(Unescaped("a\\x00\\xfFb\\n\\\\\nc"), std::string("a\0\xFF"
                                                             "b\n\\c",
                                                             7));
}

}  // namespace
}  // namespace dunlin::fuzz
