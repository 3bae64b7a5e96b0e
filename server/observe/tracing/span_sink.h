// SPDX-License-Identifier: Apache-2.0
// Where finished spans go: a collector, or a test.
#pragma once

#include <cstdint>
#include <string>

#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"

namespace dunlin::server {

namespace otlp = opentelemetry::proto;

class SpanSink {
 public:
  enum class Outcome : uint8_t {
    kTaken,  // but for num_rejected
    kRetry,  // not taken; the same batch may be taken later
    kRefused
  };
  struct Result {
    Outcome outcome = Outcome::kTaken;
    int64_t num_rejected = 0;  // spans of a taken batch that the sink did not want
    std::string why;           // not taken, for the log
  };

  virtual ~SpanSink() = default;
  // Blocks until the batch is taken, not taken or the sink's own time limit has passed. One thread at a time.
  virtual Result Export(const otlp::collector::trace::v1::ExportTraceServiceRequest& batch) = 0;
  // Ends an Export that is under way, and every later one, at once. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace dunlin::server
