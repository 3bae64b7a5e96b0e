// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace dunlin::integration {
namespace {

using ::testing::AnyOf;

constexpr int kLimitSeconds = 120;

void ExpectWhole(const Json& record, const std::string& device) {
  for (const char* field :
       {"op", "device", "backend", "precision", "shape", "threads", "median_us", "min_us", "gflops", "gbytes_per_s",
        "roof", "roofline_ratio", "workspace_bytes", "resident_bytes", "output_sha256", "max_abs_error_fp64"}) {
    EXPECT_TRUE(record.contains(field)) << field << " of " << record.dump();
  }
  EXPECT_EQ(record["device"], device);
  EXPECT_GT(record["median_us"], 0.0);
  EXPECT_LE(record["min_us"], record["median_us"]);
  EXPECT_GT(record["roofline_ratio"], 0.0);
  EXPECT_GT(record["resident_bytes"], 0);
  EXPECT_EQ(record["output_sha256"].get<std::string>().size(), 64U);
  const std::string roof = record["roof"];
  EXPECT_THAT(roof, AnyOf("fp32_flops", "bf16_flops", "fp16_flops", "fp8_flops", "dram_read"));
  for (const char* when : {"before", "after"}) {
    EXPECT_GT(record["roofs"][when]["fp32_gflops"], 0.0);
    EXPECT_GE(record["roofs"][when]["bf16_gflops"], record["roofs"][when]["fp32_gflops"]);
    EXPECT_GT(record["roofs"][when]["dram_read_gbytes_per_s"], 0.0);
  }
  if (record["error_samples"] > 0) {
    EXPECT_LE(record["max_abs_error_fp64"], record["error_bound"]) << record.dump();
  }
}

}  // namespace

CommandResult RunBench(Arguments arguments) {
  arguments.insert(arguments.begin(), "bench");
  return RunDunlin(arguments, kLimitSeconds);
}

std::vector<Json> Records(Arguments arguments, const std::string& device) {
  arguments.insert(arguments.end(), {"--json", "--max-seconds", "0.01"});
  const CommandResult result = RunBench(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<Json> records;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) records.push_back(Json::parse(line));
  EXPECT_FALSE(records.empty());
  for (const Json& record : records) ExpectWhole(record, device);
  return records;
}

}  // namespace dunlin::integration
