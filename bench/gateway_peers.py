# SPDX-License-Identifier: Apache-2.0
"""Other programs on the gateway's way, each with one worker, a header that it sets, and kept connections to the upstream."""
import os
import shutil
import subprocess

from processes import free_port, wait_for

NGINX = """
worker_processes 1; worker_rlimit_nofile {files}; error_log stderr crit; pid {folder}/nginx.pid; daemon off;
events {{ worker_connections {files}; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
  fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; proxy_read_timeout 600s;
  upstream up {{ server {address}:{upstream}; keepalive 64; keepalive_requests 1000000000; }}
  server {{
    listen {port} {tls_in};
    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
    location / {{
      proxy_pass {scheme}://up; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_ssl_server_name on; proxy_ssl_name api.example.com; proxy_buffering off;
      proxy_ssl_verify on; proxy_ssl_trusted_certificate {folder}/ca.pem;
      proxy_set_header Host api.example.com; proxy_set_header Authorization "Bearer {secret}";
    }}
  }}
}}
"""
HAPROXY = """
global
  nbthread 1
  maxconn {half}
defaults
  mode {mode}
  timeout client 600s
  timeout server 600s
  timeout connect 5s
  option http-no-delay
  http-reuse always
frontend in
  bind :{port} {tls_in}
  {inspect}
  default_backend up
backend up
  {header}
  server one {address}:{upstream} {tls_out}
"""
SQUID = """
{kind}_port {port} accel defaultsite=api.example.com no-vhost {tls_in}
cache_peer {address} parent {upstream} 0 no-query originserver name=up {tls_out}
cache_peer_access up allow all
http_access allow all
cache deny all
cache_mem 8 MB
access_log none
cache_log /dev/null
pid_filename none
coredump_dir {folder}
cache_effective_user {user}
max_filedescriptors {files}
request_header_access Authorization deny all
request_header_add Authorization "Bearer {secret}" all
shutdown_lifetime 0 seconds
pinger_enable off
netdb_filename none
"""


def nginx(bench, place, port, tls_in, tls_out):
    text = NGINX.format(**place, port=port, tls_in="ssl" if tls_in else "", scheme="https" if tls_out else "http")
    return ["-c", bench.file("nginx.conf", text)]


def haproxy(bench, place, port, tls_in, tls_out):
    # The certificate and its key in one file.
    both = bench.file("both.pem", open(bench.folder + "/server.pem").read() + open(bench.folder + "/server.key").read())
    out = f"ssl verify required ca-file {bench.folder}/ca.pem sni str(api.example.com)"
    text = HAPROXY.format(
        **place, port=port, mode="http", inspect="", tls_in=f"ssl crt {both}" if tls_in else "", tls_out=out if tls_out else "",
        header=f'http-request set-header Authorization "Bearer {place["secret"]}"',
    )  # fmt: skip
    return ["-f", bench.file("haproxy.cfg", text)]


def haproxy_passing_on(bench, place, port):
    """Reads the name that the client's first record has, and passes the bytes on."""
    inspect = "tcp-request inspect-delay 5s\n  tcp-request content accept if { req.ssl_sni -i api.example.com }"
    text = HAPROXY.format(**place, port=port, mode="tcp", inspect=inspect, tls_in="", tls_out="", header="")
    return ["-f", bench.file("haproxy.cfg", text)]


def squid(bench, place, port, tls_in, tls_out):
    certificate = f"tls-cert={bench.folder}/server.pem tls-key={bench.folder}/server.key"
    text = SQUID.format(
        **place, port=port, kind="https" if tls_in else "http", tls_in=certificate if tls_in else "", user="proxy",
        tls_out=f"tls tls-cafile={bench.folder}/ca.pem ssldomain=api.example.com" if tls_out else "",
    )  # fmt: skip
    return ["-N", "-f", bench.file("squid.conf", text)]


def mitmdump(bench, place, port, _, tls_out):
    scheme = "https" if tls_out else "http"
    return [
        "-q", "--mode", f"reverse:{scheme}://{place['address']}:{place['upstream']}", "--listen-port", str(port), "--ssl-insecure",
        "--set", "stream_large_bodies=1", "--set", f"confdir={bench.folder}/mitm", "--set", "connection_strategy=lazy",
        "--set", "block_global=false", "--modify-headers", f"/~q/Authorization/Bearer {place['secret']}",
    ]  # fmt: skip


PEERS = {"nginx": nginx, "haproxy": haproxy, "squid": squid, "mitmdump": mitmdump}


def missing():
    return [name for name in PEERS if not find(name)]


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


def start(bench, name, mode, place):
    """(process, port) of a peer for one of the modes; nothing when it is not installed or has no such mode."""
    program, port = find(name), free_port()
    if not program:
        return None
    if mode == "passed on":
        if name != "haproxy":
            return None
        words = haproxy_passing_on(bench, place, port)
    else:
        words = PEERS[name](bench, place, port, mode == "intercepting", mode != "transparent")
    process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.children.append(process)
    wait_for(port)
    return process, port
