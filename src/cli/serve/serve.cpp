#include <algorithm>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/version.h"
#include "cli/command.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/serve/live_demo.h"
#include "cli/text/chat_flags.h"
#include "cli/text/sampling_flags.h"
#include "serve/http/head_check.h"
#include "serve/http/http_server.h"
#include "serve/notify.h"
#include "serve/route/origins.h"
#include "serve/route/server.h"

namespace deltasane::cli {
namespace {

struct ServeOptions {
  ModelFlags model;
  SamplerSettings sampling;
  ChatFlags chat;
  std::string host = "127.0.0.1", name, key_file, states;
  std::vector<std::string> hosts, origins;
  int port = 8080;
  int64_t batch = 64, queue = 256, max_output = 8192, states_host = 4096, states_gpu = 4096, prefix_cache = 1024;
  double drain_seconds = 30;
  bool deterministic = false, no_keys = false, demo = false;
};

constexpr std::string_view path_prefix = "unix:";

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.") ||
         host.starts_with(path_prefix);
}

serve::Keys keys_of(const ServeOptions& options) {
  serve::Keys keys;
  if (!options.key_file.empty()) keys.add_file(options.key_file);
  if (const char* const key = std::getenv("DELTASANE_API_KEY"); key && *key) keys.add(key);
  if (keys.empty() && !is_this_machine(options.host) && !options.no_keys)
    fail(Fault::usage, "serve: expected an API key for ", options.host,
         ", which others can reach, found none; give --api-key-file or DELTASANE_API_KEY, or "
         "--no-auth to let everybody in");
  if (!keys.empty() && options.no_keys)
    fail(Fault::usage, "serve: expected API keys or --no-auth, found both");
  return keys;
}

// Names that clients may call the server by. With keys in force any will do.
std::vector<std::string> hosts_of(const ServeOptions& options, const serve::Keys& keys) {
  if (!keys.empty() && options.hosts.empty()) return {};
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "::1"};
  if (!options.host.starts_with(path_prefix)) hosts.push_back(serve::host_name(options.host));
  for (const std::string& host : options.hosts) hosts.push_back(serve::host_name(host));
  return hosts;
}

serve::ServeSettings settings_of(const ServeOptions& options, const serve::Keys& keys,
                                 const std::string& file_name) {
  serve::ServeSettings settings;
  settings.model_name = options.name.empty() ? fs::path(file_name).stem().string() : options.name;
  settings.version = fmt::format("deltasane {}", build_version());
  settings.created = std::time(nullptr);
  settings.sampling = options.sampling;
  settings.reply_mode = options.chat.reply_mode();
  settings.max_output = options.max_output;
  settings.hosts = hosts_of(options, keys);
  for (const std::string& origin : options.origins)
    if (!serve::is_origin(origin))
      fail(Fault::usage, "--origin: expected an origin such as https://chat.example, found ", origin);
  settings.origins = options.origins;
  settings.states.folder = options.states;
  settings.states.host_bytes = uint64_t(options.states_host) << 20;
  settings.states.device_bytes = uint64_t(options.states_gpu) << 20;
  settings.scheduler.prefix_bytes = uint64_t(options.prefix_cache) << 20;
  settings.scheduler.batch = options.batch;
  settings.scheduler.queue = size_t(options.queue);
  settings.scheduler.batch_invariant = options.deterministic;
  return settings;
}

std::unique_ptr<ChatTemplate> template_of(const ServeOptions& options, const Tokenizer& tokenizer) {
  return options.chat.chat_template.empty() ? chat_template_of(tokenizer)
                                            : chat_template_named(options.chat.chat_template);
}

// The shipped pair, whose model with SANE is served; none without --demo.
std::optional<DemoPair> demo_of(ServeOptions& options) {
  if (options.demo == !options.model.path.empty())
    fail(Fault::usage, "serve: expected a MODEL or --demo, found ",
         options.demo ? "both" : "neither");
  if (!options.demo) return std::nullopt;
  std::optional<DemoPair> pair = shipped_pair({});
  if (!pair)
    fail(Fault::file, "--demo: expected the folder models/ of the repository here or above the "
                      "program, found none; start it in the repository");
  options.model.path = pair->sane;
  return pair;
}

int serve_model(ServeOptions& options) {
  if (options.port < 0 || options.port > 65535)
    fail(Fault::usage, "--port: expected 0 to 65535, found ", options.port);
  if (!serve::has_http_server)
    fail(Fault::usage, "serve: expected a build with Boost's headers, found one without; install "
                       "libboost-dev and build again");
  serve::Keys keys = keys_of(options);
  std::optional<DemoPair> pair = demo_of(options);
  OpenModel open(options.model);
  const auto tokenizer =
      open_tokenizer(options.model.tokenizer, open.model.checkpoint(), options.model.path);
  serve::ServeSettings settings = settings_of(options, keys, open.name);
  const std::string name = settings.model_name;
  serve::Service service(open.model, *tokenizer, template_of(options, *tokenizer), open.cpu(),
                         std::move(settings), std::move(keys));
  std::optional<LiveDemo> demo;
  if (pair) demo.emplace(std::move(*pair), service, options.model.threads);
  serve::Server routes(service);
  serve::HttpServer server(routes, {});
  const std::shared_ptr<void> stops_before_server(nullptr, [&](void*) { service.scheduler.stop(); });
  const bool on_path = options.host.starts_with(path_prefix);
  if (on_path)
    server.listen_on_path(options.host.substr(path_prefix.size()));
  else
    server.listen(options.host, uint16_t(options.port));

  std::atomic<bool> has_failed{false};
  service.scheduler.on_fatal = [&](const std::string& message) {
    fmt::print(stderr, "deltasane: engine: {}\n", message);
    has_failed = service.is_draining = true;
    server.drain(std::chrono::seconds(1));  // the replies that say so
  };
  server.on_end_signals([&](int count) {
    if (count > 1) return server.stop();
    fmt::print(stderr, "shutting down: up to {} s for running replies; press Ctrl-C again to stop now\n",
               options.drain_seconds);
    service.is_draining = true;
    serve::notify_systemd("STOPPING=1");
    service.scheduler.refuse_further();
    service.board.close();
    server.drain(std::chrono::milliseconds(int64_t(options.drain_seconds * 1000)),
                 [&] { service.scheduler.end_running(); });
  });
  service.scheduler.start();
  const bool has_colons = options.host.find(':') != std::string::npos;
  const std::string url =
      on_path ? options.host
              : fmt::format(fmt::runtime(has_colons ? "http://[{}]:{}" : "http://{}:{}"), options.host,
                            server.port());
  fmt::print("{} at {}\n", name, url);
  if (!on_path) fmt::print("open {}/{} in a browser\n", url, demo ? "dashboard" : "chat");
  std::fflush(stdout);
  serve::notify_systemd("READY=1");
  // A token of many clients is a write for each of them.
  server.run(std::clamp(int(std::thread::hardware_concurrency()) / 4, 2, 8));
  return has_failed ? 1 : 0;
}

}  // namespace

const Command serve_texts{
    "serve", "answer requests over HTTP, as OpenAI's API has them", [](CLI::App& app) {
      auto options = std::make_shared<ServeOptions>();
      options->model.describe(app);
      app.get_option("MODEL")->required(false);
      app.add_flag("--demo", options->demo,
                   "serve the shipped model, and show on the page how states with and without SANE "
                   "read the same text");
      app.add_option("--host", options->host,
                     "address to listen on, or unix:PATH for a local socket")
          ->capture_default_str();
      app.add_option("--port", options->port, "port to listen on; 0: any that is free")
          ->capture_default_str();
      app.add_option("--name", options->name,
                     "what clients call the model; the file's name if not given");
      app.add_option("--api-key-file", options->key_file,
                     "a file with an API key a line; or one key in DELTASANE_API_KEY");
      app.add_flag("--no-auth", options->no_keys, "require no API key");
      app.add_option("--allow-host", options->hosts,
                     "a further name that clients call this server by (may be given several times)");
      app.add_option("--origin", options->origins,
                     "a web page's origin, such as https://chat.example, from which browsers may use "
                     "this server (may be given several times)");
      app.add_option("--states", options->states,
                     "a folder for states, responses and conversations; without it they end with "
                     "the server");
      app.add_option("--states-host", options->states_host, "MiB of states to hold in memory")
          ->check(above(0))
          ->capture_default_str();
      app.add_option("--states-gpu", options->states_gpu,
                     "MiB of states to hold on a GPU, where the model is on one")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_option("--prefix-cache", options->prefix_cache,
                     "MiB of states of earlier prompts, which are not read twice; 0: none")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_option("--batch", options->batch, "texts that are written at a time, 1 to 512")
          ->capture_default_str();
      app.add_option("--queue", options->queue, "requests that may wait")
          ->check(above(0))
          ->capture_default_str();
      app.add_option("--max-output", options->max_output,
                     "limit of an answer's tokens where a request has none; /v1/completions: 16, as OpenAI's")
          ->check(above(0))
          ->capture_default_str();
      app.add_option("--drain", options->drain_seconds,
                     "seconds to let running replies finish after SIGTERM")
          ->check(at_least(0))
          ->capture_default_str();
      app.add_flag("--deterministic", options->deterministic,
                   "answers do not depend on other requests, bit for bit");
      options->chat.describe(app);
      app.footer(
          "Example:\n"
          "  deltasane serve --demo\n"
          "  deltasane serve models/arithmetic-sane-3.safetensors\n"
          "  curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \\\n"
          "    -d '{\"prompt\": \"User: 3+4=?\\n\\nAssistant:\", \"max_tokens\": 32}'");
      return [options] { return serve_model(*options); };
    }};

}  // namespace deltasane::cli
