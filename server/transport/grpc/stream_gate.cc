// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/stream_gate.h"

#include <dlfcn.h>
#include <grpc/slice.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"

// gRPC's own, whose headers are not installed.
struct grpc_chttp2_stream;
struct grpc_chttp2_stream_map;
struct grpc_chttp2_transport;
struct grpc_endpoint;
struct grpc_transport;
namespace grpc_core {
class ChannelArgs;
}
int grpc_endpoint_get_fd(grpc_endpoint* endpoint);

// The functions, by their symbols. CMakeLists.txt lists them, too.
#define DUNLIN_ACCEPT_STREAM "_Z33grpc_chttp2_parsing_accept_streamP21grpc_chttp2_transportj"
#define DUNLIN_PARSE_HEADER \
  "_Z31grpc_chttp2_header_parser_parsePvP21grpc_chttp2_transportP18grpc_chttp2_streamRK10grpc_slicei"
#define DUNLIN_NUM_STREAMS "_Z27grpc_chttp2_stream_map_sizeP22grpc_chttp2_stream_map"
#define DUNLIN_CREATE_TRANSPORT "_Z28grpc_create_chttp2_transportRKN9grpc_core11ChannelArgsEP13grpc_endpointb"

namespace dunlin::server {
namespace {

using Connection = std::shared_ptr<GrpcConnection>;

class Watched {
 public:
  void Add(Connection connection) {
    const engine::MutexLock lock(&mutex_);
    Entry& entry = by_fd_[connection->fd()];  // an earlier one with the number is closed
    DropTransport(entry);
    entry = {std::move(connection), nullptr};
  }
  void Remove(const GrpcConnection& connection) {
    const engine::MutexLock lock(&mutex_);
    const auto found = by_fd_.find(connection.fd());
    if (found == by_fd_.end() || found->second.connection.get() != &connection) return;
    DropTransport(found->second);
    by_fd_.erase(found);
  }
  // fd: of a server's connection; -1: of another's.
  void OnTransport(const void* transport, int fd) {
    const engine::MutexLock lock(&mutex_);
    by_transport_.erase(transport);  // one that is no more had this place
    const auto found = by_fd_.find(fd);
    if (found == by_fd_.end() || found->second.connection->is_closed()) return;
    found->second.transport = transport;
    by_transport_[transport] = found->second.connection;
  }
  Connection Of(const void* transport) {
    const engine::MutexLock lock(&mutex_);
    const auto found = by_transport_.find(transport);
    return found == by_transport_.end() ? nullptr : found->second;
  }

 private:
  struct Entry {
    Connection connection;
    const void* transport = nullptr;  // once the handshake is over
  };

  void DropTransport(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = by_transport_.find(entry.transport);
    if (found != by_transport_.end() && found->second == entry.connection) by_transport_.erase(found);
  }

  engine::Mutex mutex_;  // guards what follows
  absl::flat_hash_map<int, Entry> by_fd_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const void*, Connection> by_transport_ ABSL_GUARDED_BY(mutex_);
};

// Of the process, as the functions are. Never destroyed: gRPC's threads run until the very end.
Watched& AllWatched() {
  static auto* const watched = new Watched;
  return *watched;
}

constexpr size_t kFrameHeaderBytes = 9;

// Streams of the connection whose frames this thread parses: gRPC asks for their number before it accepts another.
thread_local size_t num_open_streams = 0;

#ifndef DUNLIN_GRPC_ARCHIVES
// The library's function. F: its type.
template <class F>
F* InLibrary(const char* symbol) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, symbol));
}
#endif

}  // namespace

void StreamGate::Watch(std::shared_ptr<GrpcConnection> connection) {
  AllWatched().Add(std::move(connection));
}

void StreamGate::Forget(const GrpcConnection& connection) {
  AllWatched().Remove(connection);
}

}  // namespace dunlin::server

#ifdef DUNLIN_GRPC_ARCHIVES
#define DUNLIN_REPLACES(symbol) asm("__wrap_" symbol)
grpc_chttp2_stream* DunlinRealAcceptStream(grpc_chttp2_transport* transport,
                                           uint32_t id) asm("__real_" DUNLIN_ACCEPT_STREAM);
absl::Status DunlinRealParseHeader(void* parser, grpc_chttp2_transport* transport, grpc_chttp2_stream* stream,
                                   const grpc_slice& bytes, int is_last) asm("__real_" DUNLIN_PARSE_HEADER);
size_t DunlinRealNumStreams(grpc_chttp2_stream_map* map) asm("__real_" DUNLIN_NUM_STREAMS);
grpc_transport* DunlinRealCreateTransport(const grpc_core::ChannelArgs& args, grpc_endpoint* endpoint,
                                          bool is_client) asm("__real_" DUNLIN_CREATE_TRANSPORT);
#define DUNLIN_REAL(name, symbol) &DunlinReal##name
#else
#define DUNLIN_REPLACES(symbol) asm(symbol)
#define DUNLIN_REAL(name, symbol) dunlin::server::InLibrary<decltype(Dunlin##name)>(symbol)
#endif

grpc_chttp2_stream* DunlinAcceptStream(grpc_chttp2_transport* transport, uint32_t id)
    DUNLIN_REPLACES(DUNLIN_ACCEPT_STREAM);
absl::Status DunlinParseHeader(void* parser, grpc_chttp2_transport* transport, grpc_chttp2_stream* stream,
                               const grpc_slice& bytes, int is_last) DUNLIN_REPLACES(DUNLIN_PARSE_HEADER);
size_t DunlinNumStreams(grpc_chttp2_stream_map* map) DUNLIN_REPLACES(DUNLIN_NUM_STREAMS);
grpc_transport* DunlinCreateTransport(const grpc_core::ChannelArgs& args, grpc_endpoint* endpoint, bool is_client)
    DUNLIN_REPLACES(DUNLIN_CREATE_TRANSPORT);

// Null: gRPC passes over the stream's frames.
grpc_chttp2_stream* DunlinAcceptStream(grpc_chttp2_transport* transport, uint32_t id) {
  static const auto real = DUNLIN_REAL(AcceptStream, DUNLIN_ACCEPT_STREAM);
  const auto connection = dunlin::server::AllWatched().Of(transport);
  if (connection != nullptr && !connection->TryOpen(dunlin::server::num_open_streams)) return nullptr;
  return real(transport, id);
}

// bytes: a frame of headers or of their continuation, or a part of one. An error closes the connection.
absl::Status DunlinParseHeader(void* parser, grpc_chttp2_transport* transport, grpc_chttp2_stream* stream,
                               const grpc_slice& bytes, int is_last) {
  static const auto real = DUNLIN_REAL(ParseHeader, DUNLIN_PARSE_HEADER);
  const auto connection = dunlin::server::AllWatched().Of(transport);
  const size_t size = GRPC_SLICE_LENGTH(bytes) + dunlin::server::kFrameHeaderBytes;
  if (connection != nullptr && !connection->TakeHeaderBytes(size)) return absl::ResourceExhaustedError("headers");
  return real(parser, transport, stream, bytes, is_last);
}

size_t DunlinNumStreams(grpc_chttp2_stream_map* map) {
  static const auto real = DUNLIN_REAL(NumStreams, DUNLIN_NUM_STREAMS);
  dunlin::server::num_open_streams = real(map);
  return dunlin::server::num_open_streams;
}

grpc_transport* DunlinCreateTransport(const grpc_core::ChannelArgs& args, grpc_endpoint* endpoint, bool is_client) {
  static const auto real = DUNLIN_REAL(CreateTransport, DUNLIN_CREATE_TRANSPORT);
  const int fd = is_client ? -1 : grpc_endpoint_get_fd(endpoint);
  grpc_transport* const transport = real(args, endpoint, is_client);
  dunlin::server::AllWatched().OnTransport(transport, fd);  // its first member: the addresses are equal
  return transport;
}
