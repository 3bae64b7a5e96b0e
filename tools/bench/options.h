// SPDX-License-Identifier: Apache-2.0
// The command line of `dunlin bench`. Plain data; each bench checks the fields that it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/fp8_recipe.h"
#include "kernels/api/attention.h"
#include "kernels/api/device.h"
#include "kernels/api/dtype.h"

namespace dunlin::tools::bench {

inline constexpr int32_t kStepTokens = 512;  // scheduler.max_tokens_per_step's default

struct BenchOptions {
  std::string case_name;   // "": the bench's default cases
  std::string backend;     // comma-separated; "": the case's own
  std::string precision;   // comma-separated; "": the case's own
  std::string shape;       // comma-separated whole numbers; "": the case's own
  std::string batch;       // comma-separated whole numbers; "": the case's own
  std::string fp8_recipe;  // comma-separated; "": the case's own
  std::string model;       // a model directory instead of a named shape
  int32_t kv_heads = 0;    // 0: as many as heads
  int32_t prompt_tokens = 512;
  int32_t new_tokens = 64;
  bool grammar = false;                     // constrained against unconstrained decoding
  std::string adapters;                     // comma-separated numbers of low-rank adapters; "": none
  int32_t rank = 16;                        // of these
  std::string speculation = "off";          // not off: speculative against plain decoding (MaxDraftsNamed)
  int32_t tensor = 1;                       // ranks among which the model is divided, which share the threads
  bool int8_inputs = false;                 // products of integer codes round their inputs to 8 bits
  std::string device = "cpu";               // "cpu", "cuda" or "auto": CUDA if available, else the CPU
  kernels::DeviceOptions device_options{};  // for kernels::OpenDevice
  bool causal = false;
  double softcap = 0.0;  // of attention's scores; 0: none
  bool alibi = false;    // attention's scores fall with distance, by slopes of the paper
  double scale = 0.0;    // 0: the bench's default
  uint64_t seed = 1;
  double max_seconds = 10.0;  // of the timed part of one case
  bool json = false;
};

// Errors of all of these: INVALID_ARGUMENT naming option, value and limit.

// "4,32,64" as `count` whole numbers (0: any count), each in [1, limit]; empty text gives none.
absl::StatusOr<std::vector<int64_t>> ParseNumbers(std::string_view option, std::string_view text, size_t count,
                                                  int64_t limit);
// "bf16,fp8" or "all"; empty text gives `fallback`.
absl::StatusOr<std::vector<kernels::Precision>> ParsePrecisions(std::string_view text,
                                                                std::vector<kernels::Precision> fallback);
// How a matrix of `dunlin bench gemm` is stored.
struct NamedFormat {
  const char* name;  // of the precision or of the format
  kernels::WeightFormat format;
};
// "bf16,q4_super_min": names of precisions, and of formats that keep a checkpoint's codes; empty text or "all": those
// of every precision.
absl::StatusOr<std::vector<NamedFormat>> ParseWeightFormats(std::string_view text);
// "static,delayed" or "all"; empty text gives none.
absl::StatusOr<std::vector<engine::Fp8Recipe>> ParseFp8Recipes(std::string_view text);
// "flash" or "all".
absl::StatusOr<std::vector<kernels::AttentionBackend>> ParseBackends(std::string_view text);

// What model benches iterate over; no list is empty.
struct ModelAxes {
  std::vector<kernels::Precision> precisions;
  std::vector<std::optional<kernels::AttentionBackend>> backends;  // none: the one that AUTO takes
  std::vector<int64_t> batches;                                    // 1..batch_limit
};
// From --precision (default bf16), --backend (default AUTO's) and --batch (default `batches`).
absl::StatusOr<ModelAxes> ParseModelAxes(const BenchOptions& options, std::vector<int64_t> batches,
                                         int64_t batch_limit);

// The error for a case name that is not one of `known`.
absl::Status UnknownCase(std::string_view name, const std::vector<std::string>& known);

}  // namespace dunlin::tools::bench
