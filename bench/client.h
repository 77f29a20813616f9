// SPDX-License-Identifier: Apache-2.0
//
// A blocking HTTP/1.1 client and the statistics that the benchmarks share. Written so that the generator
// costs little: one kept connection, one write per request, no parsing beyond what a figure needs. Failures
// end the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& message);

// --port N --key K and whatever else a program defines; every value is text.
class Options {
 public:
  Options(int argc, char** argv);
  std::string text(const std::string& name, const std::string& fallback = {}) const;
  int number(const std::string& name, int fallback) const;

 private:
  std::map<std::string, std::string> values_;
};

struct Response {
  int status = 0;
  std::string head;
  std::string body;
};

// One connection to 127.0.0.1; opened again when the server has closed it.
class Connection {
 public:
  explicit Connection(int port);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Response request(const std::string& method, const std::string& path, const std::string& headers,
                   std::string_view body);
  // Sends `length` bytes as the body without holding them; receives a body without keeping it. Both return
  // its status.
  int upload(const std::string& path, const std::string& headers, std::uint64_t length);
  int download(const std::string& path, const std::string& headers, std::uint64_t& received);

 private:
  void open();
  void send(std::string_view bytes);
  std::string read_head();
  std::string read_body(const std::string& head);
  std::size_t fill();
  std::string take(std::size_t bytes);
  std::string take_line();

  int port_;
  int fd_ = -1;
  std::string buffer_;
};

struct Sandbox {
  std::string id;
  std::string token;
};

// The API and the guest protocol, as far as the figures go.
class Client {
 public:
  Client(int port, std::string key) : connection_(port), key_(std::move(key)) {}
  // `more`: further fields of the body, with a comma before each. `from`: the template.
  Sandbox create(int timeout_s = 600, const std::string& more = {}, const std::string& from = "base");
  void kill(const Sandbox& sandbox);
  // Runs a program and returns its standard output; fails the benchmark unless it exits with 0.
  std::string run(const Sandbox& sandbox, const std::vector<std::string>& command);
  // Runs code in the code interpreter, given the body of the call; fails the benchmark when that fails.
  std::string execute(const Sandbox& sandbox, const std::string& request);
  Response get(const std::string& path);
  Response post(const std::string& path, const std::string& body);
  Response remove(const std::string& path);
  Connection& connection() { return connection_; }
  static std::string sandbox_headers(const Sandbox& sandbox);

 private:
  Connection connection_;
  std::string key_;
};

// Durations in milliseconds, and what one may say about them.
class Samples {
 public:
  void add(Clock::duration duration) {
    values_.push_back(std::chrono::duration<double, std::milli>(duration).count());
  }
  void merge(const Samples& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
  }
  double percentile(double p) const;  // nearest rank
  std::size_t size() const { return values_.size(); }
  // "p50_ms":..,"p95_ms":..,"p99_ms":..,"max_ms":..,"n":..
  std::string json() const;

 private:
  std::vector<double> values_;
};

// The value of a header, whatever its case; empty when there is none.
std::string header(const std::string& head, std::string_view name);
// The value of the first "name":"..." in a JSON text.
std::string json_text(std::string_view json, std::string_view name);
double seconds_since(Clock::time_point start);
// Runs `work(i)` for i in [0, count) in as many threads and waits for all.
void in_threads(int count, const std::function<void(int)>& work);

}  // namespace bench
