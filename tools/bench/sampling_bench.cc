// SPDX-License-Identifier: Apache-2.0
// The device's `sample` over many rows of a large vocabulary: every row draws, with the truncation of the case.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/api/sampling.h"
#include "tools/bench/benches.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

using kernels::SampledToken;
using kernels::SampleRow;

struct SamplingCase {
  const char* name;
  int32_t top_k;
  float top_p;
};
constexpr SamplingCase kSamplingCases[] = {
    {"plain", 0, 1.0F}, {"top-k", 50, 1.0F}, {"top-p", 0, 0.9F}, {"top-k-p", 50, 0.9F}};

constexpr int64_t kRows = 64;
constexpr int64_t kVocab = 128256;  // Llama 3's
constexpr int64_t kRowsMax = 1024;
constexpr int64_t kVocabMax = int64_t{1} << 20;
// Codes have a standard deviation of 128: logits of 2.5.
constexpr float kLogitOfCode = 2.5F / 128.0F;

struct Shape {
  int64_t rows;
  int64_t vocab_size;
};

std::vector<float> Logits(uint64_t seed, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.rows * shape.vocab_size));
  FillRows(StreamOf(seed, 0), static_cast<size_t>(shape.vocab_size), values);
  for (float& value : values) value *= kLogitOfCode / kCodeUnit;
  return values;
}

absl::Status RunCase(Session* session, const SamplingCase& row, const Shape& shape) {
  kernels::Device* device = session->device();
  const auto num_rows = static_cast<int32_t>(shape.rows);
  const auto vocab_size = static_cast<int32_t>(shape.vocab_size);
  std::vector<SampleRow> rows(static_cast<size_t>(shape.rows));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].temperature = 0.8F;
    rows[i].top_k = row.top_k;
    rows[i].top_p = row.top_p;
    rows[i].seed = session->options().seed + i;
  }
  const std::vector<float> values = Logits(session->options().seed, shape);
  const size_t workspace_bytes = device->ops->sample_workspace(device->context, num_rows, vocab_size);
  auto logits = DeviceMemory::Allocate(device, values.size() * sizeof(float), "logits");
  if (!logits.ok()) return logits.status();
  auto device_rows = DeviceMemory::Allocate(device, rows.size() * sizeof(SampleRow), "rows");
  if (!device_rows.ok()) return device_rows.status();
  auto out = DeviceMemory::Allocate(device, rows.size() * sizeof(SampledToken), "sampled tokens");
  if (!out.ok()) return out.status();
  auto workspace = DeviceMemory::Allocate(device, workspace_bytes, "sampling workspace");
  if (!workspace.ok()) return workspace.status();
  absl::Status status = logits->Write(values.data(), values.size() * sizeof(float));
  if (status.ok()) status = device_rows->Write(rows.data(), rows.size() * sizeof(SampleRow));
  if (!status.ok()) return status;

  Record record;
  record.work = {.flops = 0.0, .bytes = static_cast<double>(values.size() * sizeof(float))};
  const auto timing = Measure(session->TimingFor(record.work), [&](int64_t /*call*/) {
    return StatusOf(device->ops->sample(device->context, {.logits = logits->floats(),
                                                          .vocab_size = vocab_size,
                                                          .num_rows = num_rows,
                                                          .rows = static_cast<const SampleRow*>(device_rows->data()),
                                                          .words = nullptr,
                                                          .out = static_cast<SampledToken*>(out->data()),
                                                          .workspace = workspace->data(),
                                                          .workspace_bytes = workspace_bytes}),
                    "sample");
  });
  if (!timing.ok()) return timing.status();
  std::vector<SampledToken> sampled(rows.size());
  if (status = out->Read(sampled.data(), sampled.size() * sizeof(SampledToken)); !status.ok()) return status;
  std::vector<int32_t> ids;
  ids.reserve(sampled.size());
  for (const SampledToken& token : sampled) ids.push_back(token.valid ? token.token.token_id : -1);
  if (std::count(ids.begin(), ids.end(), -1) > 0) return absl::DataLossError("a finite row of logits gave no token");
  record.op = "sampling";
  record.case_name = row.name;
  record.precision = "fp32";
  record.shape = {shape.rows, shape.vocab_size};
  record.timing = *timing;
  record.workspace_bytes = workspace_bytes;
  record.resident_bytes = logits->bytes() + device_rows->bytes() + out->bytes();
  record.proof = {.sha256 = Sha256(std::as_bytes(std::span(ids)))};
  session->Add(std::move(record));
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchSampling(Session* session) {
  const BenchOptions& options = session->options();
  const auto numbers = ParseNumbers("--shape", options.shape, 2, kVocabMax);
  if (!numbers.ok()) return numbers.status();
  const Shape shape = numbers->empty() ? Shape{kRows, kVocab} : Shape{(*numbers)[0], (*numbers)[1]};
  if (shape.rows > kRowsMax) {
    return absl::InvalidArgumentError(absl::StrCat("--shape has ", shape.rows, " rows; limit is ", kRowsMax));
  }
  std::vector<SamplingCase> cases;
  std::vector<std::string> known;
  for (const SamplingCase& row : kSamplingCases) {
    known.emplace_back(row.name);
    if (options.case_name.empty() || options.case_name == row.name) cases.push_back(row);
  }
  if (cases.empty()) return UnknownCase(options.case_name, known);
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (const SamplingCase& row : cases) {
    absl::Status status = session->SkipUnsupported(absl::StrCat("sampling ", row.name), RunCase(session, row, shape));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench
