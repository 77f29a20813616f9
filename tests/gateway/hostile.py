# SPDX-License-Identifier: Apache-2.0
"""Requests that are meant to be read in two ways, sent from inside a sandbox at every front of the gateway.

    python3 hostile.py '{"run": "a1b2c3", ...}'     prints one JSON line for each request and front

Each row says what may come of it: it is refused (nothing arrives), or it is made anew (what arrives has one meaning). What
arrived is judged outside (judge() below, by gateway.py). The rows of section 5 of our reference are marked by what they are;
those that a report from the field is about name it. Needs the standard library only.
"""
import json
import os
import socket
import ssl
import sys
import threading

SILENCE_S = 5.0
REFUSED, ANEW = "refused", "made anew"
ALLOWED, BROKERED = "allowed.example.com", "api.example.com"

GATEWAY, GATEWAY_NAME = "169.254.0.22", "atoll.internal"
# What the reverse front calls them (gateway.py makes the services); a request to one shows the sandbox's token.
SERVICES = {ALLOWED: ("hostile-plain", "http://" + ALLOWED), BROKERED: ("hostile-opened", "https://" + BROKERED)}

# How a request reaches the gateway: (front, host, TLS, through: nothing, the explicit proxy by an absolute URI or CONNECT, or
# the gateway as a server).
FRONTS = [
    ("transparent", ALLOWED, False, None),
    ("transparent, opened", BROKERED, True, None),
    ("proxy", ALLOWED, False, "absolute"),
    ("CONNECT", ALLOWED, False, "connect"),
    ("CONNECT, opened", BROKERED, True, "connect"),
    ("service", ALLOWED, False, "service"),
    ("service, opened", BROKERED, True, "service"),
]

GET = "GET %(uri)s HTTP/1.1\r\nHost: %(host)s\r\n"
POST = "POST %(uri)s HTTP/1.1\r\nHost: %(host)s\r\n"
# name, what may come of it, the request: %(uri)s is the target with the token (absolute at the proxy), %(path)s the same without
# its origin, %(host)s the host.
ROWS = [
    ("plain", ANEW, GET + "\r\n"),
    ("host_differs_from_uri", REFUSED, "GET http://refused.example.org%(path)s HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("httpjail_57_absolute_uri_in_a_tunnel", REFUSED,
     "GET http://refused.example.org%(path)s HTTP/1.1\r\nHost: refused.example.org\r\n\r\n"),
    ("two_hosts", REFUSED, GET + "Host: refused.example.org\r\n\r\n"),
    ("two_equal_hosts", REFUSED, GET + "Host: %(host)s\r\n\r\n"),
    ("no_host", REFUSED, "GET %(uri)s HTTP/1.1\r\n\r\n"),
    ("agentcage_175_host_of_another", REFUSED, "GET %(path)s HTTP/1.1\r\nHost: refused.example.org\r\n\r\n"),
    ("host_with_userinfo", REFUSED, "GET %(uri)s HTTP/1.1\r\nHost: x@%(host)s\r\n\r\n"),
    ("uri_with_userinfo", REFUSED, "GET http://evil@%(host)s%(path)s HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("uri_with_fragment", REFUSED, "GET %(uri)s#x HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("blank_in_uri", REFUSED, "GET %(uri)s /b HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("utf8_in_uri", REFUSED, "GET %(uri)s\u00e4 HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("unknown_coding_and_length", REFUSED, POST + "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n\r\nabc"),
    ("signed_length", REFUSED, POST + "Content-Length: +5\r\n\r\nabcde"),
    ("OpenShell_352_length_and_coding", REFUSED, POST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("coding_twice", REFUSED, POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    ("coding_in_1_0", REFUSED, "POST %(uri)s HTTP/1.0\r\nHost: %(host)s\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("OpenShell_663_length_twice", REFUSED, POST + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde"),
    ("list_of_lengths", REFUSED, POST + "Content-Length: 5, 5\r\n\r\nabcde"),
    ("blank_before_colon", REFUSED, POST + "Content-Length : 5\r\n\r\nabcde"),
    ("folded_line", REFUSED, GET + "X-A: b\r\n c\r\n\r\n"),
    ("bare_line_feeds", REFUSED, "GET %(uri)s HTTP/1.1\nHost: %(host)s\n\n"),
    ("bare_return", REFUSED, GET + "X-A: b\rX-B: c\r\n\r\n"),
    ("zero_byte", REFUSED, GET + "X-A: b\0c\r\n\r\n"),
    ("version_0_9", REFUSED, "GET %(uri)s\r\n\r\n"),
    ("version_1_2", REFUSED, "GET %(uri)s HTTP/1.2\r\nHost: %(host)s\r\n\r\n"),
    ("lower_case_method", REFUSED, "get %(uri)s HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("chunk_extension", REFUSED, POST + "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n"),
    ("chunk_of_signed_size", REFUSED, POST + "Transfer-Encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n"),
    ("huge_head", REFUSED, GET + "X-A: " + "a" * 100000 + "\r\n\r\n"),
    ("connect_with_body", REFUSED,
     "CONNECT %(host)s:80 HTTP/1.1\r\nHost: %(host)s:80\r\nX-A: %(path)s\r\nContent-Length: 5\r\n\r\nabcde"),
    ("trace", REFUSED, "TRACE %(uri)s HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("track", REFUSED, "TRACK %(uri)s HTTP/1.1\r\nHost: %(host)s\r\n\r\n"),
    ("connection_names_a_field", ANEW, GET + "Connection: keep-alive, X-Own\r\nX-Own: gone\r\n\r\n"),
    ("connection_names_the_credential", None, GET + "Connection: close, X-Api-Key\r\nX-Api-Key: mine\r\n\r\n"),
    ("proxy_authorization", ANEW, GET + "Proxy-Authorization: Basic eDp5\r\nProxy_Authorization: z\r\n\r\n"),
    ("OpenShell_1967_h2c_upgrade", ANEW,
     GET + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"),
    ("other_upgrade", ANEW, GET + "Connection: Upgrade\r\nUpgrade: connect-ip\r\n\r\n"),
    ("websocket_without_key", REFUSED, GET + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
    ("ai_gateway_839_chunks_upstream", ANEW, POST + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ("microsandbox_1422_first_request", ANEW,
     POST + "X-Api-Key: mine\r\nX-API-KEY: too\r\nX_Api_Key: and\r\nContent-Length: 0\r\n\r\n"),
    ("pipelined_and_cut", ANEW, GET + "\r\nGET /next HTTP/1.1\r\nHost: refused.example.org\r\n\r\n"),
]  # fmt: skip
# Fields that no upstream may see, and those that a sandbox may not set where a credential is put in.
NEVER = {"proxy-authorization", "proxy_authorization", "upgrade", "http2-settings", "connection", "x-own"}


def token_of(run, row, front):
    return f"hx{run}{front}{row:03d}x"


def opened(front, token):
    """A stream to the front, in which the request is to be written."""
    _, host, tls, through = front
    port = 443 if tls else 80
    if through is None:
        where = (socket.getaddrinfo(host, None, socket.AF_INET)[0][4][0], port)
    else:
        where = (GATEWAY, 80 if through == "service" else 3128)
    sock = socket.create_connection(where, SILENCE_S)
    sock.settimeout(SILENCE_S)
    if through == "service":
        return sock
    if through == "connect":
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        answer = sock.recv(4096)
        if b" 200" not in answer[:13]:
            raise OSError("no tunnel: " + answer[:60].decode(errors="replace"))
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(sock, server_hostname=host)
    return sock


def send(row, front, token, out):
    path, host = "/" + token, front[1]
    if front[3] == "service":
        path, host = f"/svc/{SERVICES[host][0]}{path}", GATEWAY_NAME
    request = row[2] % {"path": path, "host": host, "uri": f"http://{host}{path}" if front[3] == "absolute" else path}
    if front[3] == "service":  # as the first field, so that all that is hostile stays as it is
        request = request.replace("\r\n", f"\r\nAuthorization: Bearer {os.environ['ATOLL_TOKEN']}\r\n", 1)
    said = ""
    try:
        with opened(front, token) as sock:
            sock.sendall(request.encode())
            said = sock.recv(4096).partition(b"\r\n")[0].decode(errors="replace")
    except OSError as error:
        said = f"{type(error).__name__}: {error}"
    out.append({"row": row[0], "front": front[0], "token": token, "said": said})


def main():
    run = json.loads(sys.argv[1])["run"]
    out, threads = [], []
    for f, front in enumerate(FRONTS):
        for r, row in enumerate(ROWS):
            threads.append(threading.Thread(target=send, args=(row, front, token_of(run, r, f), out), daemon=True))
    for first in range(0, len(threads), 20):
        for thread in threads[first : first + 20]:
            thread.start()
        for thread in threads[first : first + 20]:
            thread.join(4 * SILENCE_S)
    for one in list(out):
        print(json.dumps(one))


def judge(results, seen, secret):
    """(passed, [what is wrong]) from what the program said and what arrived outside."""
    rows = {name: allowed for name, allowed, _ in ROWS}
    brokered = {front[0] for front in FRONTS if front[1] == BROKERED}
    passed, wrong = 0, []
    for one in results:
        arrived = [request for request in seen if one["token"] in json.dumps(request)]
        where, allowed = f"{one['row']} at {one['front']}", rows[one["row"]]
        fault = None
        if len(arrived) > 1 or (allowed == REFUSED and arrived):
            fault = f"{len(arrived)} arrived"
        elif allowed == REFUSED and " 2" in one["said"][:11]:
            fault = "was answered as if it had been done"
        elif allowed == ANEW and not arrived:
            fault = "did not arrive"
        elif arrived:
            fault = strange(arrived[0], secret if one["front"] in brokered else None)
        if fault:
            wrong.append(f"{where}: {fault}: {one['said']}")
        else:
            passed += 1
    if len(results) != len(ROWS) * len(FRONTS):
        wrong.append(f"{len(results)} answers to {len(ROWS) * len(FRONTS)} requests")
    return passed, wrong


def strange(request, secret):
    """What is wrong with a request that arrived; None when nothing is."""
    names = [name.lower() for name, _ in request["fields"]]
    if set(names) & NEVER:
        return f"has {sorted(set(names) & NEVER)}"
    if names.count("host") != 1 or sum(name in ("content-length", "transfer-encoding") for name in names) > 1:
        return f"has more than one host or length: {names}"
    keys = [value for name, value in request["fields"] if name.lower().replace("_", "-") == "x-api-key"]
    if secret and keys != [secret]:
        return f"has the credential {len(keys)} times"
    if "atoll_st_" in json.dumps(request):
        return "has the token"
    return None


if __name__ == "__main__":
    main()
