#include "server/convert/embed_request.h"

#include "absl/strings/str_cat.h"
#include "engine/text/tokenizer.h"
#include "server/convert/errors.h"
#include "server/convert/execution.h"
#include "server/convert/field_checks.h"

namespace dunlin::server {
namespace {

constexpr int64_t kVectorOverheadBytes = 32;  // of one Embedding besides its values, at most

struct PoolingRow {
  engine::Pooling engine;
  v1::Pooling wire;
};
constexpr PoolingRow kPoolingRows[] = {
    {engine::Pooling::kMean, v1::POOLING_MEAN},
    {engine::Pooling::kCls, v1::POOLING_CLS},
    {engine::Pooling::kLast, v1::POOLING_LAST},
};

absl::Status CheckInput(const v1::EmbedInput& input, int index, bool has_tokenizer) {
  const std::string field = absl::StrCat("inputs[", index, "]");
  switch (input.input_case()) {
    case v1::EmbedInput::kText:
      if (!has_tokenizer) {
        return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; it takes token_ids only");
      }
      return CheckBytes(absl::StrCat(field, ".text"), input.text().size(), 0, engine::kMaxTextBytes);
    case v1::EmbedInput::kTokenIds:
      if (!input.token_ids().ids().empty()) return absl::OkStatus();
      return InvalidField(absl::StrCat(field, ".token_ids.ids"), "has 0 tokens", "1 or more");
    case v1::EmbedInput::INPUT_NOT_SET:
      break;
  }
  return InvalidField(field, "is empty", "one of text, token_ids");
}

absl::Status CheckInputs(const v1::EmbedRequest& wire, const EncoderFacts& facts, const Limits& limits) {
  const int count = wire.inputs_size();
  if (count < 1 || count > limits.max_embedding_inputs) {
    return InvalidField("inputs", absl::StrCat("has ", count, " entries"),
                        absl::StrCat("1 to ", limits.max_embedding_inputs, " (limits.max_embedding_inputs)"));
  }
  for (int i = 0; i < count; ++i) {
    if (absl::Status s = CheckInput(wire.inputs(i), i, facts.has_tokenizer); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const v1::EmbedRequest& wire, const EncoderFacts& facts, const Limits& limits,
                         engine::EncodeRequest* out) {
  if (absl::Status s = CheckInt("pooling", wire.pooling(), 0, v1::Pooling_MAX); !s.ok()) return s;
  out->pooling = facts.settings.pooling;
  for (const PoolingRow& row : kPoolingRows) {
    if (row.wire == wire.pooling()) out->pooling = row.engine;
  }
  out->normalize = wire.has_normalize() ? wire.normalize() : facts.settings.normalize;
  out->dimensions = wire.has_dimensions() ? wire.dimensions() : facts.hidden_dim;
  if (absl::Status s = CheckInt("dimensions", out->dimensions, 1, facts.hidden_dim); !s.ok()) return s;
  const int64_t bytes = wire.inputs_size() * (int64_t{out->dimensions} * 4 + kVectorOverheadBytes);
  if (bytes <= limits.max_message_bytes) return absl::OkStatus();
  return InvalidField("inputs",
                      absl::StrCat("has ", wire.inputs_size(), " entries, whose vectors take ", bytes, " bytes"),
                      absl::StrCat(limits.max_message_bytes, " (limits.max_message_bytes)"));
}

double Milliseconds(engine::TimeNs from, engine::TimeNs to) {
  return from == 0 || to == 0 ? 0.0 : static_cast<double>(to - from) / 1e6;
}

}  // namespace

absl::StatusOr<CheckedEmbed> CheckEmbedRequest(const v1::EmbedRequest& wire, const EncoderFacts& facts,
                                               const Limits& limits) {
  CheckedEmbed checked;
  if (absl::Status s = CheckInputs(wire, facts, limits); !s.ok()) return s;
  if (absl::Status s = CheckOutput(wire, facts, limits, &checked.engine); !s.ok()) return s;
  const absl::StatusOr<engine::ExecutionChoice> choice = ChoiceFromWire(wire.execution());
  if (!choice.ok()) return choice.status();
  checked.choice = *choice;
  return checked;
}

v1::Pooling ToWire(engine::Pooling pooling) {
  for (const PoolingRow& row : kPoolingRows) {
    if (row.engine == pooling) return row.wire;
  }
  return v1::POOLING_UNSPECIFIED;
}

v1::EmbedResponse EmbedToWire(const engine::EncodeCall& call) {
  const engine::EncodeRequest& request = call.request;
  v1::EmbedResponse wire;
  const float* vector = call.vectors.data();
  for (const int32_t length : request.lengths) {
    v1::Embedding* embedding = wire.add_embeddings();
    embedding->mutable_values()->Add(vector, vector + request.dimensions);
    embedding->set_tokens(length);
    vector += request.dimensions;
  }
  *wire.mutable_execution() = ToWire(request.profile);
  wire.set_pooling(ToWire(request.pooling));
  wire.set_normalized(request.normalize);
  wire.mutable_usage()->set_prompt_tokens(static_cast<int32_t>(request.tokens.size()));
  wire.mutable_timings()->set_queue_ms(Milliseconds(request.arrival, call.first_scheduled));
  wire.mutable_timings()->set_total_ms(Milliseconds(request.arrival, call.finished));
  return wire;
}

}  // namespace dunlin::server
