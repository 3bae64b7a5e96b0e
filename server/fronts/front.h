// SPDX-License-Identifier: Apache-2.0
// What a front end is to the server: a row that says what it serves, and an object that serves it. table.cc lists the
// rows; the edge makes the fronts that the config enables and gives what they serve to its ports.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/access/permissions.h"
#include "server/fronts/front_settings.h"
#include "server/models/repository.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/request_record.h"
#include "server/transport/zmq/event_publisher.h"

namespace dunlin::server {

struct GrpcService;
struct HttpRoute;

// What a front is made from. The objects outlive the front.
struct FrontSources {
  ServingCore* core = nullptr;
  RequestObserver* observer = nullptr;  // what FrontRow::observe made; null if the row has none
  FrontSettings settings;
  std::string version;                          // of the server, for clients
  std::string cpu_variant;                      // of its kernels, for clients
  std::function<std::string()> unready_reason;  // HttpSources::unready_reason; null: there is no HTTP port
  std::function<void()> shut_down;              // what SIGTERM does; null: nobody can ask for that
  // Where the KV events of a model are published, if they are; null: of none.
  std::function<std::optional<EventPublisherOptions>(const std::string& model)> kv_event_source;
};

// An API that is served. Made before the ports open, destroyed once they are closed and every call has ended.
// Thread rule: AddServices and AddRoutes once, before the ports open; the rest from any thread.
class Front {
 public:
  Front() = default;
  virtual ~Front() = default;
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  // Appends what it serves on the gRPC port. The services live as long as the front.
  virtual void AddServices(std::vector<GrpcService>* /*services*/) {}
  // Appends what it serves on the HTTP port.
  virtual void AddRoutes(std::vector<HttpRoute>* /*routes*/) {}
  // What load balancers are told from now on; false until the first call.
  virtual void SetServing(bool /*serving*/) {}
  // A model is not served any more, or another version of it is: calls that would follow it for ever end.
  virtual void OnModelGone(const std::string& /*model*/) {}
  // No further calls are taken; calls that would never end by themselves end.
  virtual void StartDraining() {}
};

struct FrontRow {
  const char* name;                     // its folder
  const char* enabled_key;              // the boolean key of the config that turns it on; null: it is always served
  std::span<const Endpoint> endpoints;  // all its methods and routes
  std::unique_ptr<Front> (*make)(const FrontSources& sources);
  // Makes what is told of the calls of every front, while this one is served. It outlives the serving core. Null: none.
  std::unique_ptr<RequestObserver> (*observe)(const ModelRepository& models) = nullptr;
};

}  // namespace dunlin::server
