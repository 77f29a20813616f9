// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace bench {

void fail(const std::string& message) {
  std::fprintf(stderr, "bench: %s\n", message.c_str());
  std::_Exit(1);
}

Options::Options(int argc, char** argv) {
  for (int i = 1; i < argc; i += 2) {
    if (std::strncmp(argv[i], "--", 2) != 0 || i + 1 == argc)
      fail(std::string("expected --name value, found ") + argv[i]);
    values_[argv[i] + 2] = argv[i + 1];
  }
}

std::string Options::text(const std::string& name, const std::string& fallback) const {
  auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second;
}

int Options::number(const std::string& name, int fallback) const {
  auto found = values_.find(name);
  return found == values_.end() ? fallback : std::atoi(found->second.c_str());
}

// --- connection
// -----------------------------------------------------------------------------------------------

Connection::Connection(int port) : port_(port) { open(); }
Connection::~Connection() { ::close(fd_); }

void Connection::open() {
  if (fd_ >= 0) ::close(fd_);
  buffer_.clear();
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port_));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0)
    fail(std::string("connect: ") + std::strerror(errno));
}

void Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) fail(std::string("send: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::size_t Connection::fill() {
  char block[65536];
  ssize_t n = ::recv(fd_, block, sizeof block, 0);
  if (n < 0) fail(std::string("receive: ") + std::strerror(errno));
  buffer_.append(block, static_cast<std::size_t>(n));
  return static_cast<std::size_t>(n);
}

std::string Connection::take(std::size_t bytes) {
  while (buffer_.size() < bytes)
    if (fill() == 0) fail("the server closed the connection inside a body");
  std::string taken = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return taken;
}

std::string Connection::take_line() {
  std::size_t at;
  while ((at = buffer_.find("\r\n")) == std::string::npos)
    if (fill() == 0) fail("the server closed the connection inside a chunk header");
  std::string line = take(at + 2);
  line.resize(at);
  return line;
}

std::string Connection::read_head() {
  std::size_t at;
  while ((at = buffer_.find("\r\n\r\n")) == std::string::npos)
    if (fill() == 0) fail("the server closed the connection before it answered");
  return take(at + 4);
}

std::string header(const std::string& head, std::string_view name) {
  for (std::size_t line = head.find("\r\n"); line != std::string::npos; line = head.find("\r\n", line + 2)) {
    std::size_t at = line + 2;
    if (head.size() <= at + name.size() || head[at + name.size()] != ':') continue;
    if (::strncasecmp(head.c_str() + at, name.data(), name.size()) != 0) continue;
    at = head.find_first_not_of(' ', at + name.size() + 1);
    return head.substr(at, head.find("\r\n", at) - at);
  }
  return {};
}

namespace {

std::uint64_t content_length(const std::string& head) {
  return std::strtoull(header(head, "content-length").c_str(), nullptr, 10);
}
bool chunked(const std::string& head) { return header(head, "transfer-encoding") == "chunked"; }
int status_of(const std::string& head) { return std::atoi(head.c_str() + 9); }

}  // namespace

std::string Connection::read_body(const std::string& head) {
  if (!chunked(head)) return take(content_length(head));
  std::string body;
  for (;;) {
    std::size_t size = std::strtoull(take_line().c_str(), nullptr, 16);
    body += take(size);
    take_line();
    if (size == 0) return body;
  }
}

Response Connection::request(const std::string& method, const std::string& path, const std::string& headers,
                             std::string_view body) {
  std::string message = method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers;
  if (!body.empty() || method == "POST") message += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  message += "\r\n";
  message += body;
  send(message);
  Response response;
  response.head = read_head();
  response.status = status_of(response.head);
  if (response.status != 204) response.body = read_body(response.head);
  if (header(response.head, "connection") == "close") open();
  return response;
}

int Connection::upload(const std::string& path, const std::string& headers, std::uint64_t length) {
  send("POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n" +
       headers + "Content-Length: " + std::to_string(length) + "\r\n\r\n");
  const std::string block(1 << 20, 'a');
  for (std::uint64_t sent = 0; sent < length; sent += block.size())
    send(std::string_view(block).substr(
        0, static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), length - sent))));
  std::string head = read_head();
  read_body(head);
  return status_of(head);
}

int Connection::download(const std::string& path, const std::string& headers, std::uint64_t& received) {
  send("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n" + headers + "\r\n");
  std::string head = read_head();
  received = 0;
  if (chunked(head)) {
    for (std::size_t size = 1; size != 0;) {
      size = std::strtoull(take_line().c_str(), nullptr, 16);
      for (std::size_t left = size; left > 0;) {
        std::size_t step = std::min<std::size_t>(left, 65536);
        take(step);
        left -= step;
      }
      take_line();
      received += size;
    }
    return status_of(head);
  }
  std::uint64_t length = content_length(head);
  received = std::min<std::uint64_t>(buffer_.size(), length);
  buffer_.clear();
  std::string block(1 << 18, '\0');
  while (received < length) {
    ssize_t n = ::recv(fd_, block.data(),
                       static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), length - received)), 0);
    if (n <= 0) fail("the server closed the connection inside a download");
    received += static_cast<std::uint64_t>(n);
  }
  return status_of(head);
}

// --- client
// ---------------------------------------------------------------------------------------------------

std::string json_text(std::string_view json, std::string_view name) {
  std::string wanted = "\"" + std::string(name) + "\":";
  std::size_t at = json.find(wanted);
  if (at == std::string_view::npos) return {};
  at = json.find('"', at + wanted.size());
  std::size_t end = json.find('"', at + 1);
  return std::string(json.substr(at + 1, end - at - 1));
}

Sandbox Client::create(int timeout_s, const std::string& more, const std::string& from) {
  Response response = connection_.request(
      "POST", "/v2/sandboxes", "X-API-Key: " + key_ + "\r\nContent-Type: application/json\r\n",
      "{\"templateID\":\"" + from + "\",\"timeout\":" + std::to_string(timeout_s) + more + "}");
  if (response.status != 201) fail("create: " + std::to_string(response.status) + " " + response.body);
  return {json_text(response.body, "sandboxID"), json_text(response.body, "envdAccessToken")};
}

void Client::kill(const Sandbox& sandbox) {
  Response response =
      connection_.request("DELETE", "/sandboxes/" + sandbox.id, "X-API-Key: " + key_ + "\r\n", "");
  if (response.status != 204) fail("kill: " + std::to_string(response.status) + " " + response.body);
}

Response Client::get(const std::string& path) {
  return connection_.request("GET", path, "X-API-Key: " + key_ + "\r\n", "");
}

Response Client::post(const std::string& path, const std::string& body) {
  return connection_.request("POST", path, "X-API-Key: " + key_ + "\r\nContent-Type: application/json\r\n",
                             body);
}

Response Client::remove(const std::string& path) {
  return connection_.request("DELETE", path, "X-API-Key: " + key_ + "\r\n", "");
}

std::string Client::sandbox_headers(const Sandbox& sandbox) {
  return "E2b-Sandbox-Id: " + sandbox.id + "\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: " + sandbox.token +
         "\r\n";
}

std::string Client::run(const Sandbox& sandbox, const std::vector<std::string>& command) {
  std::string message = "{\"process\":{\"cmd\":\"" + command[0] + "\",\"args\":[";
  for (std::size_t i = 1; i < command.size(); ++i) message += (i > 1 ? ",\"" : "\"") + command[i] + "\"";
  message += "]},\"stdin\":false}";
  std::string body(5, '\0');
  for (int i = 0; i < 4; ++i)
    body[static_cast<std::size_t>(1 + i)] = static_cast<char>(message.size() >> (24 - 8 * i));
  Response response = connection_.request(
      "POST", "/process.Process/Start",
      sandbox_headers(sandbox) + "Content-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n",
      body + message);
  if (response.status != 200 || response.body.find("\"end\"") == std::string::npos ||
      response.body.find("exit status 0") == std::string::npos)
    fail("command: " + std::to_string(response.status) + " " + response.body);
  return json_text(response.body, "stdout");
}

std::string Client::execute(const Sandbox& sandbox, const std::string& request) {
  Response response = connection_.request(
      "POST", "/execute",
      "E2b-Sandbox-Id: " + sandbox.id + "\r\nE2b-Sandbox-Port: 49999\r\nX-Access-Token: " + sandbox.token +
          "\r\nContent-Type: application/json\r\n",
      request);
  if (response.status != 200 || response.body.find("end_of_execution") == std::string::npos ||
      response.body.find("\"error\"") != std::string::npos)
    fail("code: " + std::to_string(response.status) + " " + response.body);
  return response.body;
}

// --- statistics
// -----------------------------------------------------------------------------------------------

double Samples::percentile(double p) const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  auto rank = static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

std::string Samples::json() const {
  char text[256];
  std::snprintf(text, sizeof text,
                "\"p50_ms\":%.3f,\"p95_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"n\":%zu", percentile(50),
                percentile(95), percentile(99), percentile(100), values_.size());
  return text;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace bench
