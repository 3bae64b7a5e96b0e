// SPDX-License-Identifier: Apache-2.0
// The span of a request, with the name and the attributes that vLLM gives its own, so that dashboards and analyses made
// for them work. Latencies are in seconds. Pure function, any thread.
// Source: SpanAttributes in vllm/tracing of vLLM; OTLP's trace.proto.
#pragma once

#include "opentelemetry/proto/trace/v1/trace.pb.h"
#include "server/observe/tracing/span_sink.h"
#include "server/serving/record/request_record.h"
#include "server/serving/record/trace_context.h"

namespace dunlin::server {

struct SpanIdentity {
  TraceId trace_id{};
  SpanId span_id{};
};

// epoch_offset: from the record's clock to nanoseconds since 1970. Text that is not UTF-8 is replaced, as protobuf's
// strings allow no other.
otlp::trace::v1::Span SpanOfRecord(const RequestRecord& record, const SpanIdentity& identity,
                                   engine::TimeNs epoch_offset);

// Adds an attribute whose value is text.
void AddAttribute(const char* key, const std::string& value,
                  google::protobuf::RepeatedPtrField<otlp::common::v1::KeyValue>* attributes);

}  // namespace dunlin::server
