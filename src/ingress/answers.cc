// SPDX-License-Identifier: Apache-2.0
#include "ingress/answers.h"

#include "base/text.h"

namespace atl::ingress {
namespace {

bool is_navigation(const http::RequestHead& request) {
  if (request.method != "GET" && request.method != "HEAD") return false;
  auto accept = request.headers.find("accept");
  return accept && accept->find("text/html") != std::string_view::npos;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string_view advice(int status) {
  switch (status) {
    case 400: return "Check the address: it has the form {port}-{sandbox id}.{domain}.";
    case 403: return "Send the sandbox's traffic token in the header e2b-traffic-access-token.";
    case 409:
    case 503: return "Try again in a moment.";
    case 429: return "Close some connections, then try again.";
    case 502: return "Check that the sandbox is alive and that a server listens on this port.";
    default: return "";
  }
}

}  // namespace

Refusal not_found(std::string sandbox) { return {502, std::move(sandbox), "The sandbox was not found", {}}; }

Refusal port_closed(std::string sandbox, std::uint16_t port) {
  return {502, std::move(sandbox), "The sandbox is running but port is not open", port};
}

Refusal no_answer(std::string sandbox, std::uint16_t port) {
  return {502, std::move(sandbox), "The sandbox is running but the service on this port gave no valid answer",
          port};
}

Refusal agent_silent(std::string sandbox) {
  return {504, std::move(sandbox), "The sandbox is running but its guest daemon does not answer", {}};
}

Refusal traffic_token_missing(std::string sandbox) {
  return {403, std::move(sandbox), "The header e2b-traffic-access-token is required for this sandbox", {}};
}

Refusal traffic_token_wrong(std::string sandbox) {
  return {403, std::move(sandbox), "The value of the header e2b-traffic-access-token is wrong", {}};
}

Refusal state_changing(std::string sandbox) {
  return {409, std::move(sandbox), "The sandbox is changing its state, try again in a moment", {}};
}

Refusal not_woken(std::string sandbox, const Error& why) {
  bool late = why.code() == Code::kDeadline;
  return {late ? 504 : 503,
          std::move(sandbox),
          "The sandbox is paused and could not be resumed: " + why.message(),
          {}};
}

Refusal too_many_connections(std::string sandbox) {
  return {429, std::move(sandbox), "Too many open connections", {}};
}

Refusal bad_request(std::string message) { return {400, {}, std::move(message), {}}; }

std::string refusal_json(const Refusal& refusal) {
  std::string out = "{";
  if (!refusal.sandbox.empty()) out += fmt::format("\"sandboxId\":{},", json_quote(refusal.sandbox));
  out += fmt::format("\"message\":{},", json_quote(refusal.message));
  if (refusal.port) out += fmt::format("\"port\":{},", *refusal.port);
  return out + fmt::format("\"code\":{}}}", refusal.status);
}

std::string refusal_page(const Refusal& refusal) {
  std::string about;
  if (!refusal.sandbox.empty())
    about += fmt::format("<dt>Sandbox</dt><dd>{}</dd>", escape_html(refusal.sandbox));
  if (refusal.port) about += fmt::format("<dt>Port</dt><dd>{}</dd>", *refusal.port);
  return fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{0} {1}</title><style>"
      "body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem}}"
      "body{{color:#1c1c1e;background:#fff}}h1{{font-size:1.4rem}}dt{{opacity:.6;font-size:.85rem}}"
      "dd{{margin:0 0 .6rem;font-family:monospace}}"
      "@media(prefers-color-scheme:dark){{body{{color:#eee;background:#18181a}}}}</style></head>"
      "<body><h1>{1}</h1><p>{2}</p><dl>{3}</dl><p>Code {0}</p></body></html>\n",
      refusal.status, escape_html(refusal.message), advice(refusal.status), about);
}

async::Task<> refuse(http::Exchange& exchange, Refusal refusal) {
  bool page = is_navigation(exchange.request());
  http::ResponseHead head;
  head.status = refusal.status;
  head.headers.add("content-type", page ? "text/html; charset=utf-8" : "application/json");
  head.headers.add("cache-control", "no-store");
  head.headers.add("x-content-type-options", "nosniff");
  if (page) head.headers.add("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'");
  if (refusal.status == 409 || refusal.status == 429 || refusal.status == 503)
    head.headers.add("retry-after", "1");
  auto body = page ? refusal_page(refusal) : refusal_json(refusal);
  // A client that went away meanwhile needs no answer.
  (void)co_await exchange.respond(std::move(head), std::move(body));
}

}  // namespace atl::ingress
