// SPDX-License-Identifier: Apache-2.0
// `dunlin bench --device cuda` on the fake module, whose memory faults when the host touches it and whose results are
// the CPU's: the cases, scaled down, verify as on the CPU and give the same digests. Not speed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/dtype.h"
#include "tests/bench/bench_records.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const std::string kFake = DUNLIN_MODULE_DIR "/libfake_cuda.so";
const std::string kDemo = DUNLIN_SOURCE_DIR "/models/demo";

Arguments OnFake(Arguments arguments, const std::string& device = "cuda", const std::string& module = kFake) {
  arguments.insert(arguments.end(), {"--device", device, "--cuda-module", module});
  return arguments;
}

// The records of the fake device, whose outputs are the CPU's bits.
std::vector<Json> SameAsCpu(const Arguments& arguments) {
  const auto cpu = Records(arguments);
  const auto cuda = Records(OnFake(arguments), "cuda");
  EXPECT_EQ(cpu.size(), cuda.size());
  for (size_t i = 0; i < cuda.size(); ++i) {
    EXPECT_EQ(cuda[i]["output_sha256"], cpu[i]["output_sha256"]) << cuda[i];
    EXPECT_EQ(cuda[i]["error_samples"], cpu[i]["error_samples"]);
    EXPECT_EQ(cuda[i]["machine"], "cuda (fake, cublas \"\")");
    EXPECT_EQ(cuda[i]["variant"], "");
    EXPECT_TRUE(cuda[i]["paired_ratio"].is_null());
    EXPECT_GE(cuda[i]["calls_per_iteration"], 1);
  }
  return cuda;
}

TEST(BenchCuda, GemmOfEveryPrecisionIsVerified) {
  const auto records = SameAsCpu({"gemm", "--shape", "3,50,70", "--precision", "all"});
  ASSERT_EQ(records.size(), size_t{kernels::kNumPrecisions});
  for (const Json& record : records) {
    EXPECT_EQ(record["error_samples"], 150);
    EXPECT_GT(record["weight_copies"], 1);
  }
}

TEST(BenchCuda, ExpertsOfEveryPrecisionAreVerified) {
  const auto records = SameAsCpu({"experts", "--shape", "3,9,2,50,70", "--precision", "all"});
  ASSERT_EQ(records.size(), size_t{kernels::kNumPrecisions});
}

// Rows and decode rows of every GEMM that a bench ran on the fake device.
std::set<std::pair<int, int>> ProductsOf(const Arguments& arguments) {
  const std::string file = "/tmp/dunlin_bench_products_" + std::to_string(getpid());
  setenv(kernels::kFakeProductsFile, file.c_str(), 1);
  (void)Records(OnFake(arguments), "cuda");
  unsetenv(kernels::kFakeProductsFile);
  std::set<std::pair<int, int>> products;
  std::ifstream lines(file);
  int tuned = 0;
  for (int rows = 0, decode_rows = 0; lines >> rows >> decode_rows >> tuned;) products.insert({rows, decode_rows});
  std::remove(file.c_str());
  return products;
}

TEST(BenchCuda, SmallGemmsAreDecodeAndLargeOnesPrefill) {
  const auto products_of = [](const char* shape) {
    return ProductsOf({"gemm", "--shape", shape, "--precision", "bf16"});
  };
  EXPECT_THAT(products_of("1,50,70"), ElementsAre(Pair(1, 1)));
  EXPECT_THAT(products_of("64,50,70"), ElementsAre(Pair(64, 64)));
  EXPECT_THAT(products_of("65,50,70"), ElementsAre(Pair(65, 0)));
}

TEST(BenchCuda, ReportsTheCostOfDeterminismWhereAlgorithmsAreTuned) {
  const std::string cache = "/tmp/dunlin_bench_algorithms_" + std::to_string(getpid());
  for (const bool chooses : {true, false}) {
    Arguments arguments = {"gemm", "--shape", "70,48,64", "--precision", "bf16"};
    if (chooses) arguments.insert(arguments.end(), {"--cublas-algorithm-cache", cache});
    const auto records = Records(OnFake(arguments), "cuda");
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].contains("deterministic_cost"), chooses) << records[0];
    EXPECT_EQ(records[0].contains("autotuned_us"), chooses);
    EXPECT_EQ(records[0]["phase"], "prefill");
  }
  std::remove(cache.c_str());
}

TEST(BenchCuda, ModelPhasesMatchServing) {
  const auto products = ProductsOf({"model", "--model", kDemo, "--prompt-tokens", "20", "--new-tokens", "3", "--batch",
                                    "3", "--precision", "bf16", "--backend", "flash"});
  // A prompt, its last row for the head; then a token of each sequence.
  EXPECT_THAT(products, ElementsAre(Pair(1, 1), Pair(3, 3), Pair(20, 0)));
}

TEST(BenchCuda, AttentionOfEveryBackendIsVerified) {
  for (const char* name : {"sdpa", "xformers"}) {
    const auto records = SameAsCpu({"attention", "--case", name, "--shape", "2,4,33,16", "--kv-heads", "2"});
    ASSERT_EQ(records.size(), 3U) << name;
    for (const Json& record : records) {
      EXPECT_EQ(record["causal"], std::string(name) == "xformers");
      EXPECT_GT(record["error_samples"], 0);
    }
  }
  const Arguments paged = {"attention", "--shape", "2,4,300,32", "--kv-heads", "2"};
  const auto records_of = [&paged](const char* name, const char* precisions, const char* backends) {
    Arguments arguments = paged;
    arguments.insert(arguments.end(), {"--case", name, "--precision", precisions, "--backend", backends});
    return SameAsCpu(arguments).size();
  };
  EXPECT_EQ(records_of("prefill", "bf16", "all"), 3U);
  EXPECT_EQ(records_of("decode", "bf16,fp16,fp8", "flash"), 3U);
}

TEST(BenchCuda, LayersAreVerifiedEagerAndFused) {
  for (const char* name : {"te", "nanogpt"}) {
    const bool te = std::string(name) == "te";
    const auto records =
        SameAsCpu({"layer", "--case", name, "--scale", "0.01", "--precision", te ? "bf16,fp8" : "fp16"});
    ASSERT_EQ(records.size(), te ? 24U : 2U);
    for (const Json& record : records) EXPECT_GT(record["error_samples"], 0);
  }
}

// What the device has is known when it refuses: the bench says what the size needs and runs a smaller one.
TEST(BenchCuda, LayersRunAtTheLargestSizeThatTheDeviceHolds) {
  setenv(kernels::kFakeMemoryBytes, "36000000", 1);
  const CommandResult result = RunBench(OnFake({"layer", "--case", "te", "--scale", "0.125", "--precision", "fp8",
                                                "--fp8-recipe", "delayed", "--json", "--max-seconds", "0.01"}));
  unsetenv(kernels::kFakeMemoryBytes);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("layer te fp8 at scale 0.125 needs about "));
  const Json record = Json::parse(result.out.substr(0, result.out.find('\n')));
  EXPECT_GE(record["shape"][3], 1);
  EXPECT_LT(record["shape"][3], 4);
  EXPECT_EQ(record["shape"][2], 128 * record["shape"][3].get<int>());
}

TEST(BenchCuda, TimesModelStepsWholeAndOperationsInAnExtraStep) {
  const auto records = SameAsCpu({"model", "--model", kDemo, "--prompt-tokens", "20", "--new-tokens", "3", "--batch",
                                  "1,3", "--precision", "bf16", "--backend", "all"});
  ASSERT_EQ(records.size(), 12U);
  for (const Json& record : records) {
    EXPECT_EQ(record["shares_waited"], true);
    EXPECT_GT(record["shares"]["gemm"], 0.0);
    EXPECT_GT(record["shares"]["attention"], 0.0);
    if (record["phase"] == "decode") {
      EXPECT_GT(record["memory"]["planned_bytes"], record["memory"]["weight_bytes"]);
    }
  }
}

TEST(BenchCuda, EncoderVectorsMatchTheCpu) {
  const auto records = SameAsCpu({"encoder", "--model", DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_tiny", "--batch",
                                  "3", "--prompt-tokens", "12", "--precision", "bf16,fp8"});
  EXPECT_EQ(records.size(), 2U);
}

// What a bench reads back is NaN where no kernel wrote, so that no error bound is wide enough for it.
TEST(BenchCuda, AKernelThatWritesNothingFailsTheBench) {
  const std::vector<Arguments> benches = {
      {"gemm", "--shape", "3,50,70", "--precision", "fp8"},
      {"attention", "--case", "sdpa", "--shape", "1,2,33,16", "--backend", "math"},
      {"attention", "--case", "decode", "--shape", "2,4,90,32", "--precision", "bf16", "--backend", "efficient"},
      {"layer", "--case", "te", "--scale", "0.01", "--precision", "fp8"}};
  setenv(kernels::kFakeIdle, "1", 1);
  for (Arguments bench : benches) {
    bench.insert(bench.end(), {"--json", "--max-seconds", "0.01"});
    const CommandResult result = RunBench(OnFake(bench));
    EXPECT_EQ(result.status, 1) << bench[0];
    EXPECT_THAT(result.out, HasSubstr("are out of their error bound")) << result.err;
    const Json first = Json::parse(result.out.substr(0, result.out.find('\n')));
    EXPECT_GT(first["error_samples"], 0);
    EXPECT_TRUE(first["max_abs_error_fp64"].is_null()) << "infinity: " << first;
  }
  unsetenv(kernels::kFakeIdle);
}

TEST(BenchCuda, SkipsUnsupportedCasesWithTheReason) {
  const Arguments both = OnFake({"attention", "--shape", "1,2,8,16", "--backend", "flash", "--precision", "fp32,fp16",
                                 "--json", "--max-seconds", "0.01"});
  const CommandResult some = RunBench(both);
  EXPECT_EQ(some.status, 0) << some.err;
  EXPECT_THAT(some.err, HasSubstr("skipped: shape flash fp32: flash on cuda supports keys in fp16"));
  EXPECT_EQ(Json::parse(some.out)["precision"], "fp16") << "one record";
  Arguments none = both;
  none[6] = "fp32";
  const CommandResult refused = RunBench(none);
  EXPECT_EQ(refused.status, 1);
  const Json error = Json::parse(refused.out)["error"];
  EXPECT_EQ(error["code"], "FAILED_PRECONDITION");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("flash on cuda supports keys in fp16"));
}

TEST(BenchCuda, WithoutADeviceFailsWithTheReasonOrMeasuresTheCpu) {
  const Arguments gemm = {"gemm", "--shape", "2,48,64", "--precision", "fp32", "--max-seconds", "0.01"};
  const CommandResult no_module = RunBench(OnFake(gemm, "cuda", "/nowhere/libdunlin_cuda.so"));
  EXPECT_EQ(no_module.status, 1);
  EXPECT_THAT(no_module.err, HasSubstr("device cuda cannot be opened: the CUDA module cannot be loaded"));
  setenv(kernels::kFakeOpenError, "no CUDA driver", 1);
  const CommandResult no_driver = RunBench(OnFake(gemm));
  const CommandResult automatic = RunBench(OnFake(gemm, "auto"));
  unsetenv(kernels::kFakeOpenError);
  EXPECT_EQ(no_driver.status, 1);
  EXPECT_THAT(no_driver.err, HasSubstr("device cuda cannot be opened: no CUDA driver"));
  EXPECT_EQ(automatic.status, 0) << automatic.err;
  EXPECT_THAT(automatic.err, HasSubstr("no CUDA device, measuring the CPU: no CUDA driver"));
  EXPECT_EQ(RunBench(OnFake(gemm, "tpu")).status, 2);
}

TEST(BenchCuda, DeviceFailureEndsTheRun) {
  const std::string file = "/tmp/dunlin_bench_fails_" + std::to_string(getpid());
  std::ofstream(file) << "now";
  setenv(kernels::kFakeFailFile, file.c_str(), 1);
  const CommandResult result = RunBench(OnFake({"gemm", "--shape", "2,48,64", "--max-seconds", "0.01"}));
  unsetenv(kernels::kFakeFailFile);
  std::remove(file.c_str());
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("failed: device error"));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace dunlin::integration
