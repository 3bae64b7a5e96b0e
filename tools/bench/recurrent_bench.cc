// SPDX-License-Identifier: Apache-2.0
// The operations of recurrent layers: scans of gated delta nets (Qwen3.5-35B-A3B's heads) and of Mamba2 (Nemotron-H
// 8B's), and the causal convolution before the former. Decode reads and writes the state of each sequence; a prompt
// begins with none.
#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/benches.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/recurrent_reference.h"

namespace dunlin::tools::bench {
namespace {

using kernels::CausalConvParams;
using kernels::DeltaScanParams;
using kernels::DeltaShape;
using kernels::SequenceSpan;
using kernels::SsmScanParams;
using kernels::SsmShape;

constexpr DeltaShape kDeltaShape = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128};
constexpr SsmShape kSsmShape = {.num_heads = 128, .num_groups = 8, .head_dim = 64, .state_dim = 128};
constexpr int32_t kTaps = 4;
constexpr int64_t kSequencesMax = 1024;
constexpr int64_t kTokensMax = 65536;
constexpr double kRelativeBound = 1e-5;

enum class RecurrentOp { kDelta, kSsm, kConv };

struct RecurrentCase {
  const char* name;
  RecurrentOp op;
  bool decode;
  int64_t sequences;
  int64_t tokens;  // of each
};
constexpr RecurrentCase kRecurrentCases[] = {
    {"delta-decode", RecurrentOp::kDelta, true, 32, 1}, {"delta-prefill", RecurrentOp::kDelta, false, 1, 2048},
    {"mamba-decode", RecurrentOp::kSsm, true, 32, 1},   {"mamba-prefill", RecurrentOp::kSsm, false, 1, 2048},
    {"conv-decode", RecurrentOp::kConv, true, 32, 1},   {"conv-prefill", RecurrentOp::kConv, false, 1, 2048}};

// Floats of an operation: of a row that it reads, of a row's gates, of a row that it writes, of a state, of its
// constants.
struct RecurrentSizes {
  int64_t in;
  int64_t gates;
  int64_t out;
  int64_t state;
  int64_t constants;
  double flops;  // of a row
};
RecurrentSizes SizesOf(RecurrentOp op) {
  switch (op) {
    case RecurrentOp::kDelta:
      return {kDeltaShape.channels(),
              int64_t{2} * kDeltaShape.value_heads,
              kDeltaShape.value_features(),
              kDeltaShape.value_heads * DeltaHeadFloats(kDeltaShape),
              int64_t{2} * kDeltaShape.value_heads,
              7.0 * kDeltaShape.value_features() * kDeltaShape.key_dim};
    case RecurrentOp::kSsm:
      return {kSsmShape.channels(),
              kSsmShape.num_heads,
              kSsmShape.features(),
              kSsmShape.num_heads * SsmHeadFloats(kSsmShape),
              int64_t{3} * kSsmShape.num_heads,
              5.0 * kSsmShape.features() * kSsmShape.state_dim};
    case RecurrentOp::kConv:
      break;
  }
  const int64_t channels = kDeltaShape.channels();
  return {channels, 0, channels, (kTaps - 1) * channels, kTaps * channels, 2.0 * kTaps * static_cast<double>(channels)};
}

// The addresses of a call, all of the host or all of the device.
struct RecurrentArrays {
  const float* in;
  const float* gates;
  const float* constants;
  float* states;
  const int32_t* slots;
  const SequenceSpan* spans;
  float* out;
};

class RecurrentRun {
 public:
  RecurrentRun(Session* session, const RecurrentCase& row)
      : session_(session), case_(row), sizes_(SizesOf(row.op)), rows_(row.sequences * row.tokens) {
    const auto filled = [&](uint64_t tensor, int64_t count, int64_t columns) {
      std::vector<float> values(static_cast<size_t>(count));
      FillRows(StreamOf(session->options().seed, tensor), static_cast<size_t>(columns), values);
      return values;
    };
    in_ = filled(0, rows_ * sizes_.in, sizes_.in);
    if (sizes_.gates > 0) gates_ = filled(1, rows_ * sizes_.gates, sizes_.gates);
    constants_.resize(static_cast<size_t>(sizes_.constants));
    FillUniform(StreamOf(session->options().seed, 2), constants_);
    states_ = filled(3, case_.sequences * sizes_.state, sizes_.state);
    for (int64_t i = 0; i < case_.sequences; ++i) {
      slots_.push_back(static_cast<int32_t>(case_.sequences - 1 - i));
      spans_.push_back({.query_start = static_cast<int32_t>(i * case_.tokens),
                        .query_len = static_cast<int32_t>(case_.tokens),
                        .first_position = case_.decode ? 1 : 0,
                        .page_table_row = 0});
    }
  }

  absl::Status Run() {
    if (absl::Status status = CopyToDevice(); !status.ok()) return status;
    Record record;
    record.work = {.flops = static_cast<double>(rows_) * sizes_.flops, .bytes = Bytes()};
    const auto timing = Measure(session_->TimingFor(record.work), [&](int64_t /*call*/) { return Call(); });
    if (!timing.ok()) return timing.status();
    // The timed calls have moved the states on; what is checked begins with the first ones.
    absl::Status status = device_states_.Write(states_.data(), states_.size() * sizeof(float));
    if (status.ok()) status = out_.Poison();
    if (status.ok()) status = Call();
    std::vector<float> out(static_cast<size_t>(rows_ * sizes_.out));
    if (status.ok()) status = out_.Read(out.data(), out.size() * sizeof(float));
    if (!status.ok()) return status;
    record.op = "recurrent";
    record.case_name = case_.name;
    record.precision = "fp32";
    record.shape = {case_.sequences, case_.tokens};
    record.timing = *timing;
    record.resident_bytes =
        device_in_.bytes() + device_gates_.bytes() + device_constants_.bytes() + device_states_.bytes() + out_.bytes();
    record.proof = Check(out);
    session_->Add(std::move(record));
    return absl::OkStatus();
  }

 private:
  // Rows and their gates once, rows that come out once; states twice, of a prompt once.
  double Bytes() const {
    const double rows = static_cast<double>(rows_ * (sizes_.in + sizes_.gates + sizes_.out));
    const double states = static_cast<double>(case_.sequences * sizes_.state) * (case_.decode ? 2.0 : 1.0);
    return sizeof(float) * (rows + states);
  }

  template <typename T>
  absl::Status Copy(const std::vector<T>& values, const char* what, DeviceMemory* to) {
    auto memory = DeviceMemory::Allocate(session_->device(), std::max<size_t>(values.size(), 1) * sizeof(T), what);
    if (!memory.ok()) return memory.status();
    *to = std::move(*memory);
    return values.empty() ? absl::OkStatus() : to->Write(values.data(), values.size() * sizeof(T));
  }

  absl::Status CopyToDevice() {
    absl::Status status = Copy(in_, "rows", &device_in_);
    if (status.ok()) status = Copy(gates_, "gates", &device_gates_);
    if (status.ok()) status = Copy(constants_, "constants", &device_constants_);
    if (status.ok()) status = Copy(states_, "states", &device_states_);
    if (status.ok()) status = Copy(slots_, "slots", &device_slots_);
    if (status.ok()) status = Copy(spans_, "spans", &device_spans_);
    if (status.ok()) {
      status = Copy(std::vector<float>(static_cast<size_t>(rows_ * sizes_.out)), "output", &out_);
    }
    return status;
  }

  kernels::StateSlots StateOf(const RecurrentArrays& arrays) const {
    return {.pool = arrays.states, .slot_stride = sizes_.state, .slots = arrays.slots};
  }
  int32_t num_sequences() const { return static_cast<int32_t>(case_.sequences); }

  DeltaScanParams DeltaParams(const RecurrentArrays& arrays) const {
    return {.shape = kDeltaShape,
            .in = arrays.in,
            .gates = arrays.gates,
            .rate = arrays.constants,
            .dt_bias = arrays.constants + kDeltaShape.value_heads,
            .state = StateOf(arrays),
            .sequences = arrays.spans,
            .num_sequences = num_sequences(),
            .out = arrays.out};
  }
  SsmScanParams SsmParams(const RecurrentArrays& arrays) const {
    return {.shape = kSsmShape,
            .in = arrays.in,
            .step = arrays.gates,
            .step_stride = kSsmShape.num_heads,
            .rate = arrays.constants,
            .step_bias = arrays.constants + kSsmShape.num_heads,
            .skip = arrays.constants + 2 * int64_t{kSsmShape.num_heads},
            .step_min = 0.0F,
            .step_max = std::numeric_limits<float>::infinity(),
            .state = StateOf(arrays),
            .sequences = arrays.spans,
            .num_sequences = num_sequences(),
            .out = arrays.out};
  }
  CausalConvParams ConvParams(const RecurrentArrays& arrays) const {
    return {.in = arrays.in,
            .in_stride = sizes_.in,
            .weight = arrays.constants,
            .channels = static_cast<int32_t>(sizes_.in),
            .taps = kTaps,
            .state = StateOf(arrays),
            .sequences = arrays.spans,
            .num_sequences = num_sequences(),
            .out = arrays.out};
  }

  absl::Status Call() const {
    const kernels::Device& device = *session_->device();
    const RecurrentArrays arrays = {.in = device_in_.floats(),
                                    .gates = device_gates_.floats(),
                                    .constants = device_constants_.floats(),
                                    .states = device_states_.floats(),
                                    .slots = static_cast<const int32_t*>(device_slots_.data()),
                                    .spans = static_cast<const SequenceSpan*>(device_spans_.data()),
                                    .out = out_.floats()};
    switch (case_.op) {
      case RecurrentOp::kDelta:
        return StatusOf(device.ops->delta_scan(device.context, DeltaParams(arrays)), "delta_scan");
      case RecurrentOp::kSsm:
        return StatusOf(device.ops->ssm_scan(device.context, SsmParams(arrays)), "ssm_scan");
      case RecurrentOp::kConv:
        break;
    }
    return StatusOf(device.ops->causal_conv(device.context, ConvParams(arrays)), "causal_conv");
  }

  std::vector<RecurrentSum> Exact(int32_t sequence, int64_t column) {
    const RecurrentArrays arrays = {in_.data(),    gates_.data(), constants_.data(), states_.data(), slots_.data(),
                                    spans_.data(), nullptr};
    const auto at = static_cast<int32_t>(column);
    switch (case_.op) {
      case RecurrentOp::kDelta:
        return ExactDeltaColumn(DeltaParams(arrays), sequence, at / kDeltaShape.value_dim, at % kDeltaShape.value_dim);
      case RecurrentOp::kSsm:
        return ExactSsmColumn(SsmParams(arrays), sequence, at / kSsmShape.head_dim, at % kSsmShape.head_dim);
      case RecurrentOp::kConv:
        break;
    }
    return ExactConvChannel(ConvParams(arrays), sequence, at);
  }

  // Some columns of the first and the last sequence, in all of their rows.
  Proof Check(const std::vector<float>& out) {
    constexpr int64_t kColumns = 16;
    std::vector<Sample> samples;
    for (const int64_t sequence : {int64_t{0}, case_.sequences - 1}) {
      for (const int64_t column : SampleIndices(sizes_.out, kColumns)) {
        const std::vector<RecurrentSum> sums = Exact(static_cast<int32_t>(sequence), column);
        for (size_t token = 0; token < sums.size(); ++token) {
          const int64_t row = sequence * case_.tokens + static_cast<int64_t>(token);
          const auto actual = static_cast<double>(out[static_cast<size_t>(row * sizes_.out + column)]);
          samples.push_back({actual, sums[token].value, sums[token].magnitude});
        }
      }
    }
    Proof proof = CheckSamples(Sha256(std::as_bytes(std::span(out))), samples, kRelativeBound);
    RequireWritten(out, &proof);
    return proof;
  }

  Session* const session_;
  const RecurrentCase case_;
  const RecurrentSizes sizes_;
  const int64_t rows_;
  std::vector<float> in_;
  std::vector<float> gates_;
  std::vector<float> constants_;
  std::vector<float> states_;  // before the calls
  std::vector<int32_t> slots_;
  std::vector<SequenceSpan> spans_;
  DeviceMemory device_in_;
  DeviceMemory device_gates_;
  DeviceMemory device_constants_;
  DeviceMemory device_states_;
  DeviceMemory device_slots_;
  DeviceMemory device_spans_;
  DeviceMemory out_;
};

absl::StatusOr<std::vector<RecurrentCase>> CasesOf(const BenchOptions& options) {
  const auto numbers = ParseNumbers("--shape", options.shape, 2, kTokensMax);
  if (!numbers.ok()) return numbers.status();
  if (!numbers->empty() && (*numbers)[0] > kSequencesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shape has ", (*numbers)[0], " sequences; limit is ", kSequencesMax));
  }
  std::vector<RecurrentCase> cases;
  std::vector<std::string> known;
  for (RecurrentCase row : kRecurrentCases) {
    known.emplace_back(row.name);
    if (!options.case_name.empty() && options.case_name != row.name) continue;
    if (!numbers->empty()) {
      row.sequences = (*numbers)[0];
      row.tokens = (*numbers)[1];
    }
    cases.push_back(row);
  }
  if (cases.empty()) return UnknownCase(options.case_name, known);
  return cases;
}

}  // namespace

absl::Status BenchRecurrent(Session* session) {
  const auto cases = CasesOf(session->options());
  if (!cases.ok()) return cases.status();
  for (const RecurrentCase& row : *cases) {
    const RecurrentSizes sizes = SizesOf(row.op);
    const double floats = static_cast<double>(row.sequences) *
                          static_cast<double>(row.tokens * (sizes.in + sizes.gates + 2 * sizes.out) + 2 * sizes.state);
    const std::string what = absl::StrCat("recurrent ", row.name);
    if (absl::Status status = CheckMemory(what, 2 * sizeof(float) * floats); !status.ok()) return status;
  }
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (const RecurrentCase& row : *cases) {
    absl::Status status =
        session->SkipUnsupported(absl::StrCat("recurrent ", row.name), RecurrentRun(session, row).Run());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench
