// SPDX-License-Identifier: Apache-2.0
// out = A W^T alone: the input rows are rounded or quantised beforehand, the output is FP32 without bias or residual.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/runtime/tuning.h"
#include "kernels/api/float_formats.h"
#include "tools/bench/benches.h"
#include "tools/bench/coded_weight.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/weight_rows.h"

namespace dunlin::tools::bench {
namespace {

using kernels::Precision;

struct Matrix {
  const char* layer;  // of a transformer layer
  int64_t out_features;
  int64_t in_features;
};
constexpr Matrix kGpt2[] = {{"qkv", 2304, 768}, {"out", 768, 768}, {"up", 3072, 768}, {"down", 768, 3072}};
constexpr Matrix kLlama1b[] = {{"qkv", 3072, 2048}, {"out", 2048, 2048}, {"up", 16384, 2048}, {"down", 2048, 8192}};
constexpr Matrix kLlama8b[] = {{"qkv", 6144, 4096}, {"out", 4096, 4096}, {"up", 28672, 4096}, {"down", 4096, 14336}};
constexpr Matrix kOfEach[] = {
    {"gpt2 up", 3072, 768}, {"llama-1b up", 16384, 2048}, {"llama-8b out", 4096, 4096}, {"llama-8b down", 4096, 14336}};
// A GEMM with at most this many rows is bound by its weights, which must come from memory as in a model; its rows are
// one token of each sequence, as in decode.
constexpr int64_t kDecodeRowsMax = 64;
constexpr int64_t kPrefillRows[] = {256, 2048};
constexpr int64_t kDecodeRows[] = {1, 4};
constexpr int64_t kSmallBatchRows[] = {8, 16, 32};

struct GemmCase {
  const char* name;
  std::span<const int64_t> rows;
  std::span<const Matrix> matrices;
};
const GemmCase kGemmCases[] = {
    {"gpt2", kPrefillRows, kGpt2},  {"llama-1b", kPrefillRows, kLlama1b},      {"llama-8b", kPrefillRows, kLlama8b},
    {"gemv", kDecodeRows, kOfEach}, {"small-batch", kSmallBatchRows, kOfEach},
};

constexpr int64_t kGemmDimensionMax = int64_t{1} << 18;
constexpr int64_t kRowsMax = int64_t{1} << 16;
constexpr int64_t kCopiesMax = 1024;  // weights below 256 KiB occur only in tests
constexpr int64_t kSamples = 512;
constexpr size_t kWeightAlignment = 64;  // PackedWeight's

struct Problem {
  std::string case_name;
  std::string layer;
  NamedFormat weights;
  int64_t rows;
  int64_t out_features;
  int64_t in_features;

  bool decodes() const { return rows <= kDecodeRowsMax; }
  kernels::WeightFormat format() const { return weights.format; }
  Precision inputs() const { return Traits(weights.format).compute; }
};

// One problem. Every precision packs its weights from the same E4M3 codes and scales, which the integer formats round;
// a format of checkpoints' codes has codes of its own.
class GemmRun {
 public:
  GemmRun(Session* session, const Problem& problem)
      : session_(*session),
        device_(session->device()),
        problem_(problem),
        int8_inputs_(session->options().int8_inputs && Traits(problem.format()).group != 0) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status PackWeights();
  absl::Status PackFirst();
  absl::Status QuantizeInput();
  absl::Status Multiply(int64_t call);
  // Lets a device that times its algorithms choose: one for any number of rows, and one for this number.
  absl::Status Tune();
  // The cost of using one algorithm for any number of rows, where the device chose both.
  absl::Status AddCostOfDeterminism(Record* record);
  double RelativeBound() const;
  absl::StatusOr<std::vector<float>> SampledWeights(std::span<const int64_t> indices) const;
  absl::StatusOr<Proof> Check() const;
  int64_t Copies() const;
  kernels::PackedWeight Copy(int64_t index) const {
    return {.data = static_cast<std::byte*>(weights_.data()) + static_cast<size_t>(index) * weight_bytes_,
            .precision = problem_.inputs(),
            .out_features = problem_.out_features,
            .in_features = problem_.in_features,
            .format = problem_.format(),
            .int8_inputs = int8_inputs_};
  }
  float Scale(int64_t row) const { return row % 2 == 0 ? 0x1p-12F : 0x1p-11F; }

  Session& session_;
  kernels::Device* const device_;
  const Problem problem_;
  const bool int8_inputs_;
  std::vector<uint8_t> codes_;  // [out_features, in_features]
  std::vector<float> input_;    // [rows, in_features]
  // The copies, contiguous like a model's matrices: in separate allocations, small ones would get small pages.
  DeviceMemory weights_;
  size_t weight_bytes_ = 0;  // from one copy to the next
  int64_t copies_ = 0;
  DeviceMemory activation_memory_;
  kernels::Activation activation_;
  DeviceMemory out_;
  bool tuned_ = false;
  bool deterministic_ = true;  // GemmParams::deterministic
};

double WeightBytes(const Problem& p) {
  const double codes =
      static_cast<double>(p.out_features) * static_cast<double>(p.in_features) * BytesPerElement(p.format());
  return codes + (p.inputs() == Precision::kFp8 ? 4.0 * static_cast<double>(p.out_features) : 0.0);
}

int64_t GemmRun::Copies() const {
  if (!problem_.decodes()) return 1;
  const auto beyond = static_cast<double>(session_.bytes_beyond_caches());
  return std::min(kCopiesMax, static_cast<int64_t>(beyond / WeightBytes(problem_)) + 1);
}

absl::Status GemmRun::PackFirst() {
  kernels::PackedWeight weight = Copy(0);
  kernels::PackWeightParams params{.weight = &weight,
                                   .source = nullptr,
                                   .source_dtype = kernels::DType::kF8E4M3,
                                   .row_stride = problem_.in_features,
                                   .column_stride = 1,
                                   .row_begin = 0,
                                   .num_rows = problem_.out_features};
  const auto pack = [&] { return StatusOf(device_->ops->pack_weight(device_->context, params), "pack weight"); };
  if (KeepsCodes(problem_.format())) {
    const CodedWeight coded =
        MakeCodedWeight(problem_.format(), problem_.out_features, problem_.in_features, session_.options().seed);
    const kernels::WeightCodes codes = coded.View();
    params.codes = &codes;
    return pack();
  }
  codes_.resize(static_cast<size_t>(problem_.out_features * problem_.in_features));
  FillCodes(StreamOf(session_.options().seed, 0), codes_);
  std::vector<float> scales(static_cast<size_t>(problem_.out_features));
  for (size_t n = 0; n < scales.size(); ++n) scales[n] = Scale(static_cast<int64_t>(n));
  params.source = codes_.data();
  params.source_scales = scales.data();
  return pack();
}

absl::Status GemmRun::PackWeights() {
  auto memory = DeviceMemory::Allocate(device_, static_cast<size_t>(copies_) * weight_bytes_, "the weights");
  if (!memory.ok()) return memory.status();
  weights_ = *std::move(memory);
  absl::Status status = PackFirst();
  if (!status.ok()) return status;
  std::vector<std::byte> packed(weight_bytes_);
  status = weights_.Read(packed.data(), weight_bytes_);
  for (int64_t copy = 1; status.ok() && copy < copies_; ++copy) {
    status = weights_.Write(packed.data(), weight_bytes_, static_cast<size_t>(copy) * weight_bytes_);
  }
  return status;
}

absl::Status GemmRun::QuantizeInput() {
  const auto rows = static_cast<int32_t>(problem_.rows);
  const auto columns = static_cast<int32_t>(problem_.in_features);
  input_.resize(static_cast<size_t>(problem_.rows * problem_.in_features));
  FillRows(StreamOf(session_.options().seed, 1), static_cast<size_t>(columns), input_);
  auto memory = DeviceMemory::Allocate(device_, device_->ops->activation_bytes(problem_.inputs(), rows, columns),
                                       "the input rows");
  if (!memory.ok()) return memory.status();
  activation_memory_ = *std::move(memory);
  activation_ = {
      .data = activation_memory_.data(), .precision = problem_.inputs(), .capacity_rows = rows, .columns = columns};
  auto staged = DeviceMemory::Allocate(device_, input_.size() * sizeof(float), "the input");
  if (!staged.ok()) return staged.status();
  absl::Status status = staged->Write(input_.data(), staged->bytes());
  if (!status.ok()) return status;
  status =
      StatusOf(device_->ops->quantize(
                   device_->context,
                   {.in = staged->floats(), .in_stride = problem_.in_features, .out = &activation_, .num_rows = rows}),
               "quantize");
  // The staged input must live until it has been read.
  if (status.ok()) status = StatusOf(device_->ops->synchronize(device_->context), "quantize");
  return status;
}

absl::Status GemmRun::Prepare() {
  const double floats = static_cast<double>(problem_.rows) *
                        (3.0 * static_cast<double>(problem_.in_features) + static_cast<double>(problem_.out_features));
  const double codes = static_cast<double>(problem_.out_features) * static_cast<double>(problem_.in_features);
  const size_t bytes = device_->ops->packed_weight_bytes(problem_.format(), problem_.out_features, problem_.in_features,
                                                         /*scale_block=*/0);
  weight_bytes_ = (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  copies_ = Copies();
  const double weights = static_cast<double>(weight_bytes_) * static_cast<double>(copies_ + 1);  // one to copy from
  absl::Status status = CheckMemory("--shape", weights + 4.0 * floats + codes);
  if (status.ok()) status = PackWeights();
  if (status.ok()) status = QuantizeInput();
  if (!status.ok()) return status;
  auto out = DeviceMemory::Allocate(device_, static_cast<size_t>(problem_.rows * problem_.out_features) * sizeof(float),
                                    "the output");
  if (!out.ok()) return out.status();
  out_ = *std::move(out);
  return absl::OkStatus();
}

absl::Status GemmRun::Multiply(int64_t call) {
  const kernels::PackedWeight weight = Copy(call % copies_);
  const auto rows = static_cast<int32_t>(problem_.rows);
  return StatusOf(device_->ops->gemm(device_->context, {.in = &activation_,
                                                        .weight = &weight,
                                                        .bias = nullptr,
                                                        .residual = nullptr,
                                                        .out = out_.floats(),
                                                        .out_stride = problem_.out_features,
                                                        .num_rows = rows,
                                                        .decode_rows = problem_.decodes() ? rows : 0,
                                                        .next = nullptr,
                                                        .activation = kernels::ActivationKind::kGeluTanh,
                                                        .deterministic = deterministic_}),
                  "gemm");
}

absl::Status GemmRun::Tune() {
  std::string notice;
  absl::Status status;
  {
    const engine::Tuning tuning(device_, &notice);
    tuned_ = tuning.on();
    for (const bool deterministic : {false, true}) {
      deterministic_ = deterministic;
      if (tuned_ && status.ok()) status = Multiply(0);
    }
    if (tuned_ && status.ok()) status = StatusOf(device_->ops->synchronize(device_->context), "gemm");
  }
  if (!notice.empty()) std::cerr << notice << "\n";
  return status;
}

// The worst case of a chain of K rounded sums: K * 2^-24 times the sum of magnitudes (Higham 2002, section 3.1). A
// tensor core truncates instead of rounding, which doubles the error, and adds FP8 products with about 14 bits
// (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2). Values of integer codes are rounded to BF16 there.
double GemmRun::RelativeBound() const {
  const double chain = static_cast<double>(problem_.in_features) * 0x1p-24;
  if (device_->ops->kind == kernels::DeviceKind::kCpu) return chain;
  if (Traits(problem_.format()).group != 0) return 2.0 * chain + 0x1p-9;
  return 2.0 * chain + (problem_.inputs() == Precision::kFp8 ? 0x1p-12 : 0.0);
}

// The weight's row of each sampled output: from the codes, or as the format rounded them.
absl::StatusOr<std::vector<float>> GemmRun::SampledWeights(std::span<const int64_t> indices) const {
  if (Traits(problem_.format()).group != 0) {
    std::vector<int32_t> rows;
    for (const int64_t index : indices) rows.push_back(static_cast<int32_t>(index % problem_.out_features));
    return ReadWeightRows(device_, Copy(0), rows);
  }
  std::vector<float> values;
  for (const int64_t index : indices) {
    const int64_t n = index % problem_.out_features;
    const uint8_t* codes = codes_.data() + n * problem_.in_features;
    for (int64_t k = 0; k < problem_.in_features; ++k) values.push_back(kernels::E4M3ToFloat(codes[k]) * Scale(n));
  }
  return values;
}

absl::StatusOr<Proof> GemmRun::Check() const {
  std::vector<float> out(static_cast<size_t>(problem_.rows * problem_.out_features));
  if (absl::Status status = out_.Read(out.data(), out.size() * sizeof(float)); !status.ok()) return status;
  const auto indices = SampleIndices(problem_.rows * problem_.out_features, kSamples);
  const absl::StatusOr<std::vector<float>> weights = SampledWeights(indices);
  if (!weights.ok()) return weights.status();
  std::vector<Sample> samples;
  const float* weight = weights->data();
  const auto columns = static_cast<size_t>(problem_.in_features);
  std::vector<double> in;
  int64_t row = -1;
  for (const int64_t index : indices) {
    if (index / problem_.out_features != row) {
      row = index / problem_.out_features;
      const std::span<const float> values(input_.data() + row * problem_.in_features, columns);
      in = int8_inputs_ ? RoundedInputs(values, Traits(problem_.format()).group)
                        : std::vector<double>(values.begin(), values.end());
    }
    Sample sample{out[static_cast<size_t>(index)], 0.0, 0.0};
    for (const double value : in) {
      const double product = value * static_cast<double>(*weight++);
      sample.exact += product;
      sample.magnitude += std::abs(product);
    }
    samples.push_back(sample);
  }
  Proof proof = CheckSamples(Sha256(std::as_bytes(std::span(out))), samples, RelativeBound());
  RequireWritten(out, &proof);
  return proof;
}

absl::Status GemmRun::AddCostOfDeterminism(Record* record) {
  deterministic_ = false;
  const absl::StatusOr<Timing> timing =
      Measure(session_.TimingFor(record->work), [this](int64_t call) { return Multiply(call); });
  if (!timing.ok()) return timing.status();
  record->extra["autotuned_us"] = timing->median_us;
  record->extra["deterministic_cost"] = record->timing.median_us / timing->median_us - 1.0;
  return absl::OkStatus();
}

absl::Status GemmRun::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Tune();
  if (status.ok()) status = out_.Poison();
  if (!status.ok()) return status;
  Record record;
  record.work = {.flops = 2.0 * static_cast<double>(problem_.rows) * static_cast<double>(problem_.out_features) *
                          static_cast<double>(problem_.in_features),
                 .bytes = WeightBytes(problem_),
                 .peak = PeakOf(problem_.inputs())};
  const absl::StatusOr<Timing> timing =
      Measure(session_.TimingFor(record.work), [this](int64_t call) { return Multiply(call); });
  if (!timing.ok()) return timing.status();
  absl::StatusOr<Proof> proof = Check();
  if (!proof.ok()) return proof.status();
  record.op = "gemm";
  record.case_name = problem_.case_name;
  record.precision = problem_.weights.name;
  record.shape = {problem_.rows, problem_.out_features, problem_.in_features};
  record.timing = *timing;
  record.resident_bytes = weight_bytes_ + activation_memory_.bytes() + out_.bytes();
  record.proof = *std::move(proof);
  record.extra["layer"] = problem_.layer;
  record.extra["phase"] = problem_.decodes() ? "decode" : "prefill";  // selects the kernel on some devices
  record.extra["weight_copies"] = copies_;
  if (int8_inputs_) record.extra["inputs"] = "int8";
  if (tuned_) status = AddCostOfDeterminism(&record);
  if (status.ok()) session_.Add(std::move(record));
  return status;
}

absl::StatusOr<std::vector<Problem>> Problems(const BenchOptions& options) {
  const auto formats = ParseWeightFormats(options.precision);
  if (!formats.ok()) return formats.status();
  const auto shape = ParseNumbers("--shape", options.shape, 3, kGemmDimensionMax);
  if (!shape.ok()) return shape.status();
  if (!shape->empty() && (*shape)[0] > kRowsMax) {
    return absl::InvalidArgumentError(absl::StrCat("--shape has M ", (*shape)[0], "; limit is ", kRowsMax));
  }
  std::vector<Problem> problems;
  std::vector<std::string> known;
  for (const GemmCase& row : kGemmCases) {
    known.emplace_back(row.name);
    const bool wanted = shape->empty() && (options.case_name.empty() || options.case_name == row.name);
    for (const Matrix& matrix : wanted ? row.matrices : std::span<const Matrix>()) {
      for (const int64_t rows : row.rows) {
        for (const NamedFormat& format : *formats) {
          problems.push_back({row.name, matrix.layer, format, rows, matrix.out_features, matrix.in_features});
        }
      }
    }
  }
  for (const NamedFormat& format : shape->empty() ? std::vector<NamedFormat>() : *formats) {
    problems.push_back({"shape", "", format, (*shape)[0], (*shape)[1], (*shape)[2]});
  }
  if (problems.empty()) return UnknownCase(options.case_name, known);
  return problems;
}

}  // namespace

absl::Status BenchGemm(Session* session) {
  const auto problems = Problems(session->options());
  if (!problems.ok()) return problems.status();
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (const Problem& problem : *problems) {
    const std::string what = absl::StrCat(problem.case_name, " ", problem.layer, " ", problem.weights.name);
    absl::Status status = session->SkipUnsupported(what, GemmRun(session, problem).Run());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench
