// SPDX-License-Identifier: Apache-2.0
// The `dunlin bench` command on tiny shapes: fields, verification, reproducibility, errors. Not speed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "tests/bench/bench_records.h"

namespace dunlin::integration {
namespace {

using ::testing::HasSubstr;

TEST(BenchCommand, GemmOfEveryPrecisionAndVariantIsVerifiedAndReproducible) {
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    const Arguments arguments = {"gemm",  "--shape",   "3,50,70", "--precision", "all", "--cpu-variant",
                                 variant, "--threads", "2"};
    const auto records = Records(arguments);
    ASSERT_EQ(records.size(), size_t{kernels::kNumPrecisions});
    for (const Json& record : records) {
      EXPECT_EQ(record["variant"], variant);
      EXPECT_EQ(record["threads"], 2);
      EXPECT_EQ(record["error_samples"], 150);
      EXPECT_GT(record["weight_copies"], 1);
    }
    const auto again = Records(arguments);
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i]["output_sha256"], again[i]["output_sha256"]);
  }
}

TEST(BenchCommand, GemmOfCheckpointsCodesAndOfInputsOf8BitsIsVerified) {
  std::string formats = "int8,int4";
  size_t count = 2;
  for (const kernels::WeightFormatTraits& row : kernels::kWeightFormatTable) {
    if (std::string(row.name).starts_with("q") || row.levels != kernels::CodeLevels::kIntegers) {
      formats += std::string(",") + row.name;
      ++count;
    }
  }
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    Arguments arguments = {"gemm", "--shape", "3,50,270", "--precision", formats, "--cpu-variant", variant};
    const auto records = Records(arguments);
    arguments.emplace_back("--int8-inputs");
    const auto rounded = Records(arguments);
    ASSERT_EQ(records.size(), count);
    ASSERT_EQ(rounded.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(records[i]["error_samples"], 150);
      EXPECT_EQ(rounded[i]["inputs"], "int8");
      EXPECT_NE(rounded[i]["output_sha256"], records[i]["output_sha256"]) << records[i]["precision"];
    }
  }
}

TEST(BenchCommand, ASeedChangesTheOutput) {
  const Arguments arguments = {"gemm", "--shape", "2,48,64", "--precision", "bf16"};
  Arguments other = arguments;
  other.insert(other.end(), {"--seed", "2"});
  EXPECT_NE(Records(arguments)[0]["output_sha256"], Records(other)[0]["output_sha256"]);
}

TEST(BenchCommand, SamplingDrawsTheSameTokensOnAnyNumberOfThreads) {
  const auto one = Records({"sampling", "--shape", "9,1000", "--threads", "1"});
  const auto three = Records({"sampling", "--shape", "9,1000", "--threads", "3"});
  ASSERT_EQ(one.size(), 4U);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i]["case"], three[i]["case"]);
    EXPECT_EQ(one[i]["output_sha256"], three[i]["output_sha256"]);
  }
}

// More experts than rows, so that some have none; and every row at one.
TEST(BenchCommand, ExpertsOfEveryPrecisionMatchFp64OnAnyNumberOfThreads) {
  for (const char* shape : {"3,9,2,50,70", "5,1,1,50,70"}) {
    const Arguments arguments = {"experts", "--shape", shape, "--precision", "all"};
    Arguments three = arguments;
    three.insert(three.end(), {"--threads", "3"});
    const auto records = Records(arguments);
    const auto same = Records(three);
    ASSERT_EQ(records.size(), size_t{kernels::kNumPrecisions});
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_GT(records[i]["error_samples"], 200);
      EXPECT_EQ(records[i]["output_sha256"], same[i]["output_sha256"]) << records[i]["precision"];
    }
  }
}

// Sequences of three tokens, in decode from a state.
TEST(BenchCommand, RecurrentOperationsMatchFp64OnAnyNumberOfThreads) {
  const auto one = Records({"recurrent", "--shape", "2,3", "--threads", "1"});
  const auto three = Records({"recurrent", "--shape", "2,3", "--threads", "3"});
  ASSERT_EQ(one.size(), 6U);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_GT(one[i]["error_samples"], 0);
    EXPECT_EQ(one[i]["output_sha256"], three[i]["output_sha256"]) << one[i]["case"];
  }
}

TEST(BenchCommand, DenseAttentionOfEveryBackend) {
  const auto records = Records({"attention", "--shape", "2,4,33,16", "--kv-heads", "2", "--causal", "--backend", "all",
                                "--precision", "fp32,bf16,fp16"});
  ASSERT_EQ(records.size(), 9U);
  size_t math_workspace = 0;
  for (const Json& record : records) {
    EXPECT_EQ(record["op"], "attention");
    EXPECT_EQ(record["causal"], true);
    EXPECT_GT(record["error_samples"], 0);
    if (record["backend"] == "math") math_workspace = record["workspace_bytes"];
  }
  EXPECT_GT(math_workspace, 0U);
}

TEST(BenchCommand, PagedAttentionOfEveryKvDtype) {
  for (const char* name : {"prefill", "decode"}) {
    const auto records = Records({"attention", "--case", name, "--shape", "2,4,40,32", "--kv-heads", "2", "--precision",
                                  "all", "--backend", "all"});
    ASSERT_EQ(records.size(), 12U);
    for (const Json& record : records) {
      EXPECT_EQ(record["op"], "paged_attention");
      EXPECT_EQ(record["group"], 2);
      EXPECT_EQ(record["queries"], std::string(name) == "decode" ? 1 : 40);
      EXPECT_GT(record["error_samples"], 0);
    }
  }
}

// The same keys under a cap that changes all scores, and with slopes.
TEST(BenchCommand, PagedAttentionOfAdjustedScores) {
  const Arguments plain = {"attention",   "--case", "prefill",   "--shape", "2,4,40,32",
                           "--precision", "bf16",   "--backend", "all"};
  const std::vector<Json> without = Records(plain);
  ASSERT_EQ(without.size(), 3U);
  for (const Arguments& adjusting : {Arguments{"--softcap", "0.5"}, {"--alibi"}, {"--softcap", "0.5", "--alibi"}}) {
    Arguments arguments = plain;
    arguments.insert(arguments.end(), adjusting.begin(), adjusting.end());
    const std::vector<Json> records = Records(arguments);
    ASSERT_EQ(records.size(), without.size());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].value("softcap", 0.0), adjusting[0] == "--softcap" ? 0.5 : 0.0);
      EXPECT_EQ(records[i].value("alibi", false), adjusting.back() == "--alibi");
      EXPECT_GT(records[i]["error_samples"], 0);
      EXPECT_NE(records[i]["output_sha256"], without[i]["output_sha256"]);
    }
  }
}

// Of all keys, then of a quarter of them, or 2,048.
TEST(BenchCommand, LatentAttentionOverAllKeysAndOverChosenOnes) {
  const auto records = Records(
      {"attention", "--case", "latent", "--shape", "2,4,41,72", "--precision", "fp32,bf16", "--backend", "all"});
  ASSERT_EQ(records.size(), 12U);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i]["queries"], 1);
    EXPECT_EQ(records[i]["kv_heads"], 1);
    EXPECT_EQ(records[i].value("selected", 0), i < 6 ? 0 : 11);
    EXPECT_GT(records[i]["error_samples"], 0);
  }
}

TEST(BenchCommand, LayersFusedAndEagerGiveTheSameBits) {
  for (const char* name : {"te", "nanogpt"}) {
    const auto records = Records({"layer", "--case", name, "--scale", "0.01", "--precision", "all"});
    ASSERT_EQ(records.size(), std::string(name) == "te" ? 56U : 12U);  // te in FP8 also with delayed scaling
    for (size_t i = 0; i < records.size(); i += 2) {
      EXPECT_EQ(records[i]["execution"], "eager");
      EXPECT_EQ(records[i + 1]["execution"], "fused");
      EXPECT_EQ(records[i]["output_sha256"], records[i + 1]["output_sha256"]) << records[i].dump();
      EXPECT_GT(records[i]["error_samples"], 0);
      EXPECT_TRUE(records[i + 1].contains("saved_against_eager"));
      EXPECT_GT(records[i]["gemm_roofline_ratio"], 0.0) << "of eager's products";
      EXPECT_LT(records[i]["gemm_us"], records[i]["median_us"]);
      EXPECT_FALSE(records[i + 1].contains("gemm_us")) << "fused products do more than multiply";
    }
  }
}

// Each recipe has its own scales: other bits than the others', within the same bound, the same fused, eager and again.
TEST(BenchCommand, LayersRunUnderEveryFp8Recipe) {
  const Arguments arguments = {"layer", "--case", "te", "--scale", "0.01", "--precision", "fp8", "--fp8-recipe", "all"};
  const auto records = Records(arguments);
  ASSERT_EQ(records.size(), 32U);
  const auto again = Records(arguments);
  std::map<std::string, std::map<std::string, std::string>> hashes;  // by layer and recipe
  for (size_t i = 0; i < records.size(); ++i) {
    const Json& record = records[i];
    EXPECT_EQ(record["output_sha256"], again[i]["output_sha256"]) << record.dump();
    EXPECT_GT(record["error_samples"], 0);
    std::string& hash = hashes[record["layer"]][record["fp8_recipe"]];
    if (record["execution"] == "fused") {
      EXPECT_EQ(record["output_sha256"], hash) << record.dump();
    }
    hash = record["output_sha256"];
  }
  EXPECT_EQ(hashes.size(), 4U);
  for (const auto& [layer, by_recipe] : hashes) {
    ASSERT_EQ(by_recipe.size(), 4U) << layer;
    if (layer == "linear") continue;  // the bench's own input, which every scale holds exactly
    EXPECT_NE(by_recipe.at("per_token"), by_recipe.at("current")) << layer;
    EXPECT_NE(by_recipe.at("per_token"), by_recipe.at("static")) << layer;
    EXPECT_NE(by_recipe.at("per_token"), by_recipe.at("delayed")) << layer;
  }
}

// So many tokens that the streams decode together, although their prompts come one after the other.
TEST(BenchCommand, ModelUnderAGrammarIsComparedWithTheSameModelWithout) {
  const Arguments arguments = {"model",           "--grammar", "--model",      DUNLIN_SOURCE_DIR "/models/demo",
                               "--prompt-tokens", "20",        "--new-tokens", "300",
                               "--batch",         "1,3"};
  const auto records = Records(arguments);
  const auto again = Records(arguments);
  ASSERT_EQ(records.size(), 2U);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i]["phase"], "grammar");
    EXPECT_EQ(records[i]["batch"], i == 0 ? 1 : 3);
    EXPECT_GT(records[i]["tokens_per_s"], 0.0);
    EXPECT_GT(records[i]["unconstrained_tokens_per_s"], 0.0);
    EXPECT_GT(records[i]["against_unconstrained"], 0.0);
    EXPECT_EQ(records[i]["output_sha256"], again[i]["output_sha256"]);
  }
}

TEST(BenchCommand, ModelGivesTheSameTokensOnEveryBackendAndEveryRun) {
  const Arguments arguments = {"model",
                               "--model",
                               DUNLIN_SOURCE_DIR "/models/demo",
                               "--prompt-tokens",
                               "20",
                               "--new-tokens",
                               "4",
                               "--batch",
                               "1,3",
                               "--precision",
                               "fp32",
                               "--backend",
                               "all"};
  const auto records = Records(arguments);
  ASSERT_EQ(records.size(), 12U);
  for (const Json& record : records) {
    EXPECT_GT(record["tokens_per_s"], 0.0);
    double shares = 0.0;
    for (const auto& [kind, share] : record["shares"].items()) shares += share.get<double>();
    EXPECT_NEAR(shares, 1.0, 1e-9);
    const Json& same =
        record["phase"] == "prefill" ? records[record["batch"] == 1 ? 0 : 6] : records[record["batch"] == 1 ? 1 : 7];
    EXPECT_EQ(record["output_sha256"], same["output_sha256"]);
  }
  EXPECT_GT(records[1]["memory"]["rss_bytes"], records[1]["memory"]["weight_bytes"]);
}

TEST(BenchCommand, EncoderGivesTheSameVectorsEveryRun) {
  const Arguments arguments = {"encoder", "--model",     DUNLIN_SOURCE_DIR "/tests/golden/encoders/bert_tiny",
                               "--batch", "3",           "--prompt-tokens",
                               "12",      "--precision", "bf16"};
  const auto records = Records(arguments);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_GT(records[0]["texts_per_s"], 0.0);
  EXPECT_EQ(records[0]["output_sha256"], Records(arguments)[0]["output_sha256"]);
}

TEST(BenchCommand, WithoutJsonItPrintsATable) {
  const CommandResult result = RunBench({"gemm", "--shape", "2,48,64", "--precision", "fp32", "--max-seconds", "0.01"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("roofs before: FP32"));
  EXPECT_THAT(result.out, HasSubstr("2x48x64"));
}

// A run that is killed keeps what it measured: the first line arrives while a hundred cases are still to come.
TEST(BenchCommand, PrintsEachRecordWhenItsCaseIsMeasured) {
  std::string precisions = "fp32";
  for (int i = 0; i < 100; ++i) precisions += ",fp32";
  const std::string command = "exec " DUNLIN_BINARY
                              " bench gemm --shape 4,64,64 --json --max-seconds 0.2 --precision " +
                              precisions + " 2>/dev/null";
  FILE* pipe = popen(("echo $$; " + command).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string lines[2];
  for (std::string& line : lines) {
    for (int c = std::fgetc(pipe); c != EOF && c != '\n'; c = std::fgetc(pipe)) line += static_cast<char>(c);
  }
  kill(std::stoi(lines[0]), SIGKILL);
  const int status = pclose(pipe);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;  // it was still running
  const Json record = Json::parse(lines[1]);
  EXPECT_EQ(record["op"], "gemm");
  EXPECT_GT(record["roofs"]["after"]["fp32_gflops"], 0.0);
}

TEST(BenchCommand, ErrorsNameTheOption) {
  const struct {
    Arguments arguments;
    const char* message;
  } kRefused[] = {
      {{"gemm", "--case", "bert"}, "--case is \"bert\"; known are gpt2"},
      {{"sampling", "--shape", "2000,100"}, "--shape has 2000 rows; limit is 1024"},
      {{"experts", "--case", "dense"}, "--case is \"dense\"; known are mixtral-8x7b, qwen3-30b"},
      {{"experts", "--shape", "1,4,5,8,8"}, "--shape chooses 5 of 4 experts; limit is all of 1024"},
      {{"experts", "--shape", "40000,4,2,8,8"}, "--shape has 80000 rows; limit is 65536"},
      {{"experts", "--precision", "q4_super_min"}, "--precision has q4_super_min, the codes of a checkpoint"},
      {{"recurrent", "--case", "lstm"}, "known are delta-decode"},
      {{"recurrent", "--shape", "2000,1"}, "--shape has 2000 sequences; limit is 1024"},
      {{"gemm", "--shape", "1,2"}, "--shape has 2 numbers; it takes 3"},
      {{"gemm", "--shape", "0,2,3"}, "--shape has \"0\"; limit is 1 to"},
      {{"gemm", "--shape", "100000,2,3"}, "--shape has M 100000; limit is 65536"},
      {{"gemm", "--shape", "65536,262144,262144"}, "--shape needs"},
      {{"gemm", "--precision", "int3"}, "--precision is \"int3\"; known are fp32"},
      {{"gemm", "--shape", "1,2,3", "--cpu-variant", "sse9"}, "unknown CPU variant \"sse9\""},
      {{"attention", "--shape", "1,4,8,8", "--kv-heads", "3"}, "--kv-heads is 3; it must divide the 4 heads"},
      {{"attention", "--case", "sdpa", "--precision", "fp8"}, "dense attention supports fp32, bf16 and fp16"},
      {{"attention", "--case", "sdpa", "--softcap", "5"}, "--softcap and --alibi need --case prefill or decode"},
      {{"attention", "--case", "latent", "--alibi"}, "--softcap and --alibi need --case prefill or decode"},
      {{"attention", "--case", "latent", "--precision", "fp8"}, "latent attention supports fp32, bf16 and fp16"},
      {{"attention", "--shape", "1,1,8,520", "--backend", "flash"}, "supports head_dim up to 512"},
      {{"model", "--case", "gpt5"}, "known are gpt2-124m"},
      {{"model", "--model", "/nonexistent"}, "/nonexistent"},
      {{"model", "--model", DUNLIN_SOURCE_DIR "/models/demo", "--prompt-tokens", "60000"}, "the model's limit is"},
      {{"layer", "--fp8-recipe", "mxfp8"}, "--fp8-recipe is \"mxfp8\"; known are per_token, static, current, delayed"},
      {{"layer", "--precision", "bf16", "--fp8-recipe", "delayed"}, "but --precision bf16 has no fp8"},
      {{"layer", "--case", "mamba"}, "known are te, nanogpt"},
      {{"encoder", "--model", DUNLIN_SOURCE_DIR "/models/demo"}, "is a decoder"},
  };
  for (const auto& refused : kRefused) {
    Arguments arguments = refused.arguments;
    arguments.insert(arguments.end(), {"--json", "--max-seconds", "0.01"});
    const CommandResult result = RunBench(arguments);
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(refused.message));
    EXPECT_THAT(Json::parse(result.out)["error"]["message"].get<std::string>(), HasSubstr(refused.message));
  }
}

TEST(BenchCommand, WrongUsageExitsWithStatus2) {
  EXPECT_EQ(RunBench({}).status, 2);
  EXPECT_EQ(RunBench({"conv"}).status, 2);
  EXPECT_EQ(RunBench({"gemm", "--threads", "-1"}).status, 2);
  EXPECT_EQ(RunBench({"gemm", "--causal"}).status, 2);
  const CommandResult help = RunBench({"gemm", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("roofline_ratio"));
}

}  // namespace
}  // namespace dunlin::integration
