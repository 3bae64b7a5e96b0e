// SPDX-License-Identifier: Apache-2.0
// The trace that a call belongs to, as its client names it. Pure functions, any thread.
// Source: W3C Trace Context, sections 3.2 (traceparent) and 3.3 (tracestate).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::server {

inline constexpr char kTraceParentHeader[] = "traceparent";
inline constexpr char kTraceStateHeader[] = "tracestate";
inline constexpr size_t kMaxTraceStateBytes = 512;
inline constexpr size_t kMaxTraceStateMembers = 32;

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceParent {
  TraceId trace_id{};  // not all zero
  SpanId span_id{};    // of the client's span; not all zero
  bool sampled = false;
};

struct TraceContext {
  std::optional<TraceParent> parent;  // none: the trace begins with the call
  std::string state;                  // tracestate, to be passed on; "" without a parent
};

// "00-<32 hexadecimal digits>-<16>-<2>" in lower case. Of a later version, which may have more after a further '-', the
// same part is read. Nothing else is taken.
std::optional<TraceParent> ParseTraceParent(std::string_view text);

// A list of key=value within the grammar and the two limits above.
bool IsTraceState(std::string_view text);

// From the values of every header of each name, in order. A traceparent that is malformed or given more than once is
// ignored, with the tracestate; a tracestate that is malformed or too long is ignored alone.
TraceContext ReadTraceContext(const std::vector<std::string_view>& parents,
                              const std::vector<std::string_view>& states);

}  // namespace dunlin::server
