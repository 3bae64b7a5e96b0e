// SPDX-License-Identifier: Apache-2.0
// A product of a mixture's experts in one operation: each row goes to experts drawn at random, as a router that is
// balanced over a training set chooses them. The output is FP32 without bias; all weights are read from memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/runtime/tuning.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/grouped_gemm.h"
#include "tools/bench/benches.h"
#include "tools/bench/coded_weight.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/weight_rows.h"

namespace dunlin::tools::bench {
namespace {

using kernels::ExpertRows;
using kernels::Precision;

struct ExpertsCase {
  const char* name;
  const char* layer;  // of the mixture
  int64_t num_experts;
  int64_t num_chosen;
  int64_t out_features;
  int64_t in_features;
};
constexpr ExpertsCase kExpertsCases[] = {
    {"mixtral-8x7b", "up", 8, 2, 28672, 4096},
    {"mixtral-8x7b", "down", 8, 2, 4096, 14336},
    {"qwen3-30b", "up", 128, 8, 1536, 2048},
    {"qwen3-30b", "down", 128, 8, 2048, 768},
};
constexpr int64_t kTokens[] = {32, 2048};  // a step that decodes, a prompt
constexpr int64_t kExpertsDimensionMax = int64_t{1} << 18;
constexpr int64_t kExpertsTokensMax = int64_t{1} << 16;
constexpr int64_t kExpertsSamples = 512;
constexpr size_t kExpertAlignment = 64;  // PackedWeight's
// Experts are one of so many matrices, so that one that another's rows are multiplied with shows.
constexpr int64_t kDistinct = 2;

struct ExpertsProblem {
  ExpertsCase experts;
  NamedFormat weights;
  int64_t tokens;

  int64_t num_rows() const { return tokens * experts.num_chosen; }
  int64_t codes() const { return experts.out_features * experts.in_features; }
  Precision inputs() const { return Traits(weights.format).compute; }
};

// A scale per row, exact in every precision.
float ExpertScale(int64_t row) {
  return row % 2 == 0 ? 0x1p-12F : 0x1p-11F;
}

// Experts in order with the rows that chose them.
std::vector<ExpertRows> Route(uint64_t seed, const ExpertsProblem& problem) {
  const auto num_experts = static_cast<int32_t>(problem.experts.num_experts);
  std::vector<int32_t> chosen(static_cast<size_t>(problem.num_rows()));
  FillIds(StreamOf(seed, kDistinct + 1), num_experts, chosen);
  std::vector<ExpertRows> groups(static_cast<size_t>(num_experts));
  for (const int32_t expert : chosen) ++groups[static_cast<size_t>(expert)].count;
  int32_t first = 0;
  for (ExpertRows& group : groups) {
    group.first = first;
    first += group.count;
  }
  return groups;
}

class ExpertsRun {
 public:
  ExpertsRun(Session* session, const ExpertsProblem& problem)
      : session_(*session), device_(session->device()), problem_(problem) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status PackWeights();
  absl::Status PackOne(int64_t expert);
  absl::Status QuantizeInput();
  absl::Status Tune();
  absl::Status Multiply();
  absl::StatusOr<std::vector<double>> WeightRow(int64_t expert, int64_t output) const;
  absl::StatusOr<Proof> Check() const;
  double RelativeBound() const;
  Work WorkOf() const;
  kernels::PackedWeight Weight(int64_t expert) const {
    return {.data = static_cast<std::byte*>(weights_.data()) + static_cast<size_t>(expert) * weight_bytes_,
            .precision = problem_.inputs(),
            .out_features = problem_.experts.out_features,
            .in_features = problem_.experts.in_features,
            .format = problem_.weights.format};
  }
  int64_t ExpertOf(int64_t row) const {
    const auto after = std::ranges::find_if(
        groups_, [row](const ExpertRows& group) { return row < int64_t{group.first} + group.count; });
    return after - groups_.begin();
  }

  Session& session_;
  kernels::Device* const device_;
  const ExpertsProblem problem_;
  std::array<std::vector<uint8_t>, kDistinct> codes_;  // [out_features, in_features]
  std::vector<float> input_;                           // [rows, in_features]
  std::vector<ExpertRows> groups_;
  std::vector<kernels::BiasedWeight> experts_;
  DeviceMemory weights_;  // of all experts at equal distances, as a model's lie
  size_t weight_bytes_ = 0;
  DeviceMemory activation_memory_;
  DeviceMemory device_groups_;
  kernels::Activation activation_;
  DeviceMemory out_;
};

absl::Status ExpertsRun::PackOne(int64_t expert) {
  std::vector<uint8_t>& codes = codes_[static_cast<size_t>(expert)];
  codes.resize(static_cast<size_t>(problem_.codes()));
  FillCodes(StreamOf(session_.options().seed, static_cast<uint64_t>(expert)), codes);
  std::vector<float> scales(static_cast<size_t>(problem_.experts.out_features));
  for (size_t n = 0; n < scales.size(); ++n) scales[n] = ExpertScale(static_cast<int64_t>(n));
  kernels::PackedWeight weight = Weight(expert);
  const kernels::PackWeightParams params{.weight = &weight,
                                         .source = codes.data(),
                                         .source_dtype = kernels::DType::kF8E4M3,
                                         .row_stride = problem_.experts.in_features,
                                         .column_stride = 1,
                                         .row_begin = 0,
                                         .num_rows = problem_.experts.out_features,
                                         .source_scales = scales.data()};
  return StatusOf(device_->ops->pack_weight(device_->context, params), "pack weight");
}

absl::Status ExpertsRun::PackWeights() {
  const int64_t num_experts = problem_.experts.num_experts;
  auto memory = DeviceMemory::Allocate(device_, static_cast<size_t>(num_experts) * weight_bytes_, "the weights");
  if (!memory.ok()) return memory.status();
  weights_ = *std::move(memory);
  const int64_t distinct = std::min(kDistinct, num_experts);
  std::vector<std::byte> packed(static_cast<size_t>(distinct) * weight_bytes_);
  absl::Status status;
  for (int64_t expert = 0; status.ok() && expert < distinct; ++expert) status = PackOne(expert);
  if (status.ok()) status = weights_.Read(packed.data(), packed.size());
  for (int64_t expert = distinct; status.ok() && expert < num_experts; ++expert) {
    const std::byte* one = packed.data() + static_cast<size_t>(expert % distinct) * weight_bytes_;
    status = weights_.Write(one, weight_bytes_, static_cast<size_t>(expert) * weight_bytes_);
  }
  for (int64_t expert = 0; expert < num_experts; ++expert) experts_.push_back({.weight = Weight(expert)});
  return status;
}

absl::Status ExpertsRun::QuantizeInput() {
  const auto rows = static_cast<int32_t>(problem_.num_rows());
  const auto columns = static_cast<int32_t>(problem_.experts.in_features);
  input_.resize(static_cast<size_t>(problem_.num_rows() * problem_.experts.in_features));
  FillRows(StreamOf(session_.options().seed, kDistinct), static_cast<size_t>(columns), input_);
  auto memory = DeviceMemory::Allocate(device_, device_->ops->activation_bytes(problem_.inputs(), rows, columns),
                                       "the input rows");
  if (!memory.ok()) return memory.status();
  activation_memory_ = *std::move(memory);
  activation_ = {
      .data = activation_memory_.data(), .precision = problem_.inputs(), .capacity_rows = rows, .columns = columns};
  auto staged = DeviceMemory::Allocate(device_, input_.size() * sizeof(float), "the input");
  if (!staged.ok()) return staged.status();
  if (absl::Status status = staged->Write(input_.data(), staged->bytes()); !status.ok()) return status;
  const kernels::QuantizeParams params{
      .in = staged->floats(), .in_stride = columns, .out = &activation_, .num_rows = rows};
  absl::Status status = StatusOf(device_->ops->quantize(device_->context, params), "quantize");
  // The staged input must live until it has been read.
  return status.ok() ? StatusOf(device_->ops->synchronize(device_->context), "quantize") : status;
}

absl::Status ExpertsRun::Prepare() {
  const size_t bytes = device_->ops->packed_weight_bytes(problem_.weights.format, problem_.experts.out_features,
                                                         problem_.experts.in_features, /*scale_block=*/0);
  weight_bytes_ = (bytes + kExpertAlignment - 1) / kExpertAlignment * kExpertAlignment;
  const auto features = static_cast<double>(3 * problem_.experts.in_features + problem_.experts.out_features);
  const double host = static_cast<double>(kDistinct * problem_.codes()) + 2.0 * static_cast<double>(weight_bytes_);
  absl::Status status =
      CheckMemory("--shape", static_cast<double>(weight_bytes_) * static_cast<double>(problem_.experts.num_experts) +
                                 4.0 * static_cast<double>(problem_.num_rows()) * features + host);
  if (status.ok()) status = PackWeights();
  if (status.ok()) status = QuantizeInput();
  if (!status.ok()) return status;
  groups_ = Route(session_.options().seed, problem_);
  auto groups = DeviceMemory::Allocate(device_, groups_.size() * sizeof(ExpertRows), "the rows of experts");
  if (!groups.ok()) return groups.status();
  device_groups_ = *std::move(groups);
  status = device_groups_.Write(groups_.data(), device_groups_.bytes());
  auto out = DeviceMemory::Allocate(
      device_, static_cast<size_t>(problem_.num_rows() * problem_.experts.out_features) * sizeof(float), "the output");
  if (!out.ok()) return out.status();
  out_ = *std::move(out);
  return status;
}

// With a file of choices: the tile shapes of these experts, of so many rows and of fewer.
absl::Status ExpertsRun::Tune() {
  std::string notice;
  absl::Status status;
  {
    const engine::Tuning tuning(device_, &notice);
    if (tuning.on()) status = Multiply();
    if (tuning.on() && status.ok()) status = StatusOf(device_->ops->synchronize(device_->context), "grouped gemm");
  }
  if (!notice.empty()) std::cerr << notice << "\n";
  return status;
}

absl::Status ExpertsRun::Multiply() {
  return StatusOf(
      device_->ops->grouped_gemm(device_->context, {.in = &activation_,
                                                    .weights = experts_.data(),
                                                    .num_groups = static_cast<int32_t>(experts_.size()),
                                                    .groups = static_cast<const ExpertRows*>(device_groups_.data()),
                                                    .out = out_.floats(),
                                                    .out_stride = problem_.experts.out_features,
                                                    .num_rows = static_cast<int32_t>(problem_.num_rows())}),
      "grouped gemm");
}

// As gemm's.
double ExpertsRun::RelativeBound() const {
  const double chain = static_cast<double>(problem_.experts.in_features) * 0x1p-24;
  if (device_->ops->kind == kernels::DeviceKind::kCpu) return chain;
  if (Traits(problem_.weights.format).group != 0) return 2.0 * chain + 0x1p-9;
  return 2.0 * chain + (problem_.inputs() == Precision::kFp8 ? 0x1p-12 : 0.0);
}

absl::StatusOr<std::vector<double>> ExpertsRun::WeightRow(int64_t expert, int64_t output) const {
  std::vector<double> row;
  if (Traits(problem_.weights.format).group != 0) {
    const auto index = static_cast<int32_t>(output);
    const absl::StatusOr<std::vector<float>> values = ReadWeightRows(device_, Weight(expert), std::span(&index, 1));
    if (!values.ok()) return values.status();
    row.assign(values->begin(), values->end());
    return row;
  }
  const int64_t columns = problem_.experts.in_features;
  const uint8_t* codes = codes_[static_cast<size_t>(expert % kDistinct)].data() + output * columns;
  for (int64_t k = 0; k < columns; ++k) {
    row.push_back(static_cast<double>(kernels::E4M3ToFloat(codes[k]) * ExpertScale(output)));
  }
  return row;
}

absl::StatusOr<Proof> ExpertsRun::Check() const {
  const int64_t columns = problem_.experts.in_features;
  const int64_t outputs = problem_.experts.out_features;
  std::vector<float> out(static_cast<size_t>(problem_.num_rows() * outputs));
  if (absl::Status status = out_.Read(out.data(), out.size() * sizeof(float)); !status.ok()) return status;
  std::vector<Sample> samples;
  for (const int64_t index : SampleIndices(problem_.num_rows() * outputs, kExpertsSamples)) {
    const int64_t row = index / outputs;
    const absl::StatusOr<std::vector<double>> weight = WeightRow(ExpertOf(row), index % outputs);
    if (!weight.ok()) return weight.status();
    Sample sample{out[static_cast<size_t>(index)], 0.0, 0.0};
    for (int64_t k = 0; k < columns; ++k) {
      const double product =
          static_cast<double>(input_[static_cast<size_t>(row * columns + k)]) * (*weight)[static_cast<size_t>(k)];
      sample.exact += product;
      sample.magnitude += std::abs(product);
    }
    samples.push_back(sample);
  }
  Proof proof = CheckSamples(Sha256(std::as_bytes(std::span(out))), samples, RelativeBound());
  RequireWritten(out, &proof);
  return proof;
}

// Weights of experts without rows are not read.
Work ExpertsRun::WorkOf() const {
  const auto codes = static_cast<double>(problem_.codes());
  const auto used =
      static_cast<double>(std::ranges::count_if(groups_, [](const ExpertRows& group) { return group.count > 0; }));
  const double scales =
      problem_.inputs() == Precision::kFp8 ? 4.0 * static_cast<double>(problem_.experts.out_features) : 0.0;
  return {.flops = 2.0 * static_cast<double>(problem_.num_rows()) * codes,
          .bytes = used * (codes * BytesPerElement(problem_.weights.format) + scales),
          .peak = PeakOf(problem_.inputs())};
}

absl::Status ExpertsRun::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Tune();
  if (status.ok()) status = out_.Poison();
  if (!status.ok()) return status;
  Record record;
  record.work = WorkOf();
  const absl::StatusOr<Timing> timing =
      Measure(session_.TimingFor(record.work), [this](int64_t) { return Multiply(); });
  if (!timing.ok()) return timing.status();
  absl::StatusOr<Proof> proof = Check();
  if (!proof.ok()) return proof.status();
  record.op = "experts";
  record.case_name = problem_.experts.name;
  record.precision = problem_.weights.name;
  record.shape = {problem_.tokens, problem_.experts.num_experts, problem_.experts.num_chosen,
                  problem_.experts.out_features, problem_.experts.in_features};
  record.timing = *timing;
  record.resident_bytes = weights_.bytes() + activation_memory_.bytes() + out_.bytes();
  record.proof = *std::move(proof);
  record.extra["layer"] = problem_.experts.layer;
  record.extra["rows_of_experts_max"] = std::ranges::max_element(groups_, {}, &ExpertRows::count)->count;
  session_.Add(std::move(record));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExpertsProblem>> ExpertsProblems(const BenchOptions& options) {
  const auto formats = ParseWeightFormats(options.precision);
  if (!formats.ok()) return formats.status();
  for (const NamedFormat& format : *formats) {
    if (!KeepsCodes(format.format)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--precision has ", format.name, ", the codes of a checkpoint; experts are packed from E4M3"));
  }
  const auto shape = ParseNumbers("--shape", options.shape, 5, kExpertsDimensionMax);
  if (!shape.ok()) return shape.status();
  std::vector<ExpertsProblem> problems;
  const auto add = [&](const ExpertsCase& experts, int64_t tokens) {
    for (const NamedFormat& format : *formats) problems.push_back({experts, format, tokens});
  };
  if (!shape->empty()) {
    const std::vector<int64_t>& number = *shape;
    if (number[0] * number[2] > kExpertsTokensMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shape has ", number[0] * number[2], " rows; limit is ", kExpertsTokensMax));
    }
    if (number[1] > kernels::kExpertsMax || number[2] > number[1]) {
      return absl::InvalidArgumentError(absl::StrCat("--shape chooses ", number[2], " of ", number[1],
                                                     " experts; limit is all of ", kernels::kExpertsMax));
    }
    add({"shape", "", number[1], number[2], number[3], number[4]}, number[0]);
    return problems;
  }
  std::vector<std::string> known;
  for (const ExpertsCase& experts : kExpertsCases) {
    if (known.empty() || known.back() != experts.name) known.emplace_back(experts.name);
    if (!options.case_name.empty() && options.case_name != experts.name) continue;
    for (const int64_t tokens : kTokens) add(experts, tokens);
  }
  if (problems.empty()) return UnknownCase(options.case_name, known);
  return problems;
}

}  // namespace

absl::Status BenchExperts(Session* session) {
  const auto problems = ExpertsProblems(session->options());
  if (!problems.ok()) return problems.status();
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (const ExpertsProblem& problem : *problems) {
    const std::string what =
        absl::StrCat("experts ", problem.experts.name, " ", problem.experts.layer, " ", problem.weights.name);
    absl::Status status = session->SkipUnsupported(what, ExpertsRun(session, problem).Run());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench
