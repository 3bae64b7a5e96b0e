// SPDX-License-Identifier: Apache-2.0
#include "server/observe/tracing/span_of_record.h"

#include <string>

#include "engine/base/status_name.h"
#include "server/serving/record/errors.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

using Attributes = google::protobuf::RepeatedPtrField<otlp::common::v1::KeyValue>;
using otlp::trace::v1::Span;

constexpr char kSpanName[] = "llm_request";
constexpr size_t kMaxMessageBytes = 500;

// Of Span.flags.
constexpr uint32_t kSampled = 0x1;
constexpr uint32_t kRemoteIsKnown = 0x100;
constexpr uint32_t kParentIsRemote = 0x200;

// Text of a client may be cut within a character.
std::string Utf8Of(std::string text) {
  if (text::IsValidUtf8(text)) return text;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

otlp::common::v1::AnyValue* Add(const char* key, Attributes* attributes) {
  otlp::common::v1::KeyValue* attribute = attributes->Add();
  attribute->set_key(key);
  return attribute->mutable_value();
}

void AddInt(const char* key, int64_t value, Attributes* attributes) {
  Add(key, attributes)->set_int_value(value);
}

void AddSeconds(const char* key, engine::TimeNs from, engine::TimeNs to, Attributes* attributes) {
  Add(key, attributes)->set_double_value(static_cast<double>(to - from) * 1e-9);
}

void AddLatencies(const RequestRecord& record, Attributes* attributes) {
  AddSeconds("gen_ai.latency.e2e", record.arrival, record.finished, attributes);
  if (record.first_scheduled == 0) return;
  AddSeconds("gen_ai.latency.time_in_queue", record.arrival, record.first_scheduled, attributes);
  AddSeconds("gen_ai.latency.time_in_model_inference", record.first_scheduled, record.finished, attributes);
  if (record.first_token == 0) return;
  AddSeconds("gen_ai.latency.time_to_first_token", record.arrival, record.first_token, attributes);
  AddSeconds("gen_ai.latency.time_in_model_prefill", record.first_scheduled, record.first_token, attributes);
  AddSeconds("gen_ai.latency.time_in_model_decode", record.first_token, record.finished, attributes);
}

void AddRequest(const RequestRecord& record, Attributes* attributes) {
  AddAttribute("gen_ai.request.id", record.request_id, attributes);
  AddAttribute("gen_ai.response.model", record.model, attributes);
  AddInt("gen_ai.usage.prompt_tokens", record.prompt_tokens, attributes);
  if (record.num_inputs > 0) return AddInt("dunlin.num_inputs", record.num_inputs, attributes);
  AddInt("gen_ai.usage.completion_tokens", record.completion_tokens, attributes);
  AddInt("dunlin.cached_tokens", record.cached_tokens, attributes);
  if (!record.temperature.has_value()) return;  // it was refused before
  AddInt("gen_ai.request.n", record.num_outputs, attributes);
  AddInt("gen_ai.request.max_tokens", record.max_tokens, attributes);
  Add("gen_ai.request.temperature", attributes)->set_double_value(*record.temperature);
  Add("gen_ai.request.top_p", attributes)->set_double_value(record.top_p.value_or(1));
}

void AddExecution(const RequestRecord& record, Attributes* attributes) {
  if (!record.profile.has_value()) return;
  AddAttribute("dunlin.attention_backend", Name(record.profile->attention_backend), attributes);
  AddAttribute("dunlin.precision", Name(record.profile->precision), attributes);
  AddAttribute("dunlin.device", Name(record.profile->device), attributes);
}

// Faults of the client are no errors of the server's span, as the semantic conventions of gRPC have it.
bool IsServerFault(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

void AddStatus(const RequestRecord& record, Span* span) {
  AddAttribute("dunlin.status", engine::StatusName(record.status.code()), span->mutable_attributes());
  if (!record.finish_reason.empty()) {
    AddAttribute("dunlin.finish_reason", record.finish_reason, span->mutable_attributes());
  }
  if (record.status.ok()) return;
  AddAttribute("error.type", ReasonName(record.status), span->mutable_attributes());
  if (!IsServerFault(record.status.code())) return;
  span->mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
  if (QuotesClient(record.status)) return;
  span->mutable_status()->set_message(Utf8Of(std::string(record.status.message().substr(0, kMaxMessageBytes))));
}

template <class Id>
std::string Bytes(const Id& id) {
  return {id.begin(), id.end()};
}

}  // namespace

void AddAttribute(const char* key, const std::string& value, Attributes* attributes) {
  Add(key, attributes)->set_string_value(Utf8Of(value));
}

Span SpanOfRecord(const RequestRecord& record, const SpanIdentity& identity, engine::TimeNs epoch_offset) {
  Span span;
  span.set_trace_id(Bytes(identity.trace_id));
  span.set_span_id(Bytes(identity.span_id));
  uint32_t flags = kSampled | kRemoteIsKnown;
  if (record.trace.has_value() && record.trace->parent.has_value()) {
    span.set_parent_span_id(Bytes(record.trace->parent->span_id));
    span.set_trace_state(record.trace->state);
    flags |= kParentIsRemote;
  }
  span.set_flags(flags);
  span.set_name(kSpanName);
  span.set_kind(Span::SPAN_KIND_SERVER);
  span.set_start_time_unix_nano(static_cast<uint64_t>(record.arrival + epoch_offset));
  span.set_end_time_unix_nano(static_cast<uint64_t>(record.finished + epoch_offset));
  AddRequest(record, span.mutable_attributes());
  AddLatencies(record, span.mutable_attributes());
  AddExecution(record, span.mutable_attributes());
  AddStatus(record, &span);
  return span;
}

}  // namespace dunlin::server
