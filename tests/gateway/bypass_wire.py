# SPDX-License-Identifier: Apache-2.0
"""Bytes that no library writes for us: questions of DNS, ClientHellos, frames of HTTP/2, packets of IP. For bypass.py, beside
which it lies inside a sandbox; the standard library only."""
import os
import socket
import struct


def dns_name(*labels):
    """Labels as they are: they may hold dots and zero bytes."""
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def dns_question(name, kind=1, klass=1, opcode=0, questions=1, answer=False, more=b""):
    """`name`: text, or bytes that dns_name() made."""
    if isinstance(name, str):
        name = dns_name(*(label.encode() for label in name.split(".")))
    flags = (0x8000 if answer else 0) | opcode << 11 | 0x0100
    head = struct.pack(">HHHHHH", int.from_bytes(os.urandom(2), "big"), flags, questions, 0, 0, 0)
    return head + name + struct.pack(">HH", kind, klass) + more


def dns_framed(message):
    return struct.pack(">H", len(message)) + message


def extension(kind, body):
    return struct.pack(">HH", kind, len(body)) + body


def server_names(*names):
    entries = b"".join(b"\0" + struct.pack(">H", len(name)) + name for name in names)
    return extension(0, struct.pack(">H", len(entries)) + entries)


def client_hello(*names, before=b"", after=b"", record=16384, alpn=None):
    """A ClientHello of TLS 1.2 and 1.3 for these server names, in records of at most `record` bytes."""
    extensions = before + (server_names(*names) if names else b"")
    extensions += extension(10, b"\0\2\0\x17") + extension(13, b"\0\4\4\3\4\1") + extension(43, b"\4\3\4\3\3")
    key = b"\4" + os.urandom(64)
    extensions += extension(51, struct.pack(">HHH", len(key) + 4, 23, len(key)) + key)
    if alpn:
        names_of = b"".join(bytes([len(one)]) + one for one in alpn)
        extensions += extension(16, struct.pack(">H", len(names_of)) + names_of)
    extensions += after
    body = b"\3\3" + os.urandom(32) + b"\0" + b"\0\4\x13\1\xc0\x2b" + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + struct.pack(">I", len(body))[1:] + body
    parts = [message[i : i + record] for i in range(0, len(message), record)]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(part)) + part for part in parts)


def h2_frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def h2_headers(*fields, stream=1, end=True):
    """HEADERS with literal fields, so that what they say stands in the bytes as it is."""
    block = b""
    for name, value in fields:
        block += b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    return h2_frame(1, 4 | (1 if end else 0), stream, block)


H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0)


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def icmp_echo(payload):
    head = struct.pack(">BBHHH", 8, 0, 0, 7, 1)
    return head[:2] + struct.pack(">H", checksum(head + payload)) + head[4:] + payload


def udp(source, target, payload):
    """With no checksum, which IPv4 allows."""
    return struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload


def tcp_syn(source, target, payload, source_address, target_address):
    head = struct.pack(">HHIIBBHHH", source, target, 1, 0, 5 << 4, 2, 1024, 0, 0)
    pseudo = socket.inet_aton(source_address) + socket.inet_aton(target_address)
    pseudo += struct.pack(">BBH", 0, 6, len(head) + len(payload))
    return head[:16] + struct.pack(">H", checksum(pseudo + head + payload)) + head[18:] + payload


def ip(source, target, protocol, payload, ident=7, offset=0, more=False, ttl=64, options=b""):
    """`offset` in bytes, a multiple of 8. `options` of a multiple of 4."""
    length = 20 + len(options)
    words = struct.pack(
        ">BBHHHBBH4s4s",
        0x40 | length // 4, 0, length + len(payload), ident, (0x2000 if more else 0) | offset // 8, ttl, protocol, 0,
        socket.inet_aton(source), socket.inet_aton(target),
    )  # fmt: skip
    words += options
    return words[:10] + struct.pack(">H", checksum(words)) + words[12:] + payload


def ethernet(target, source, kind, payload):
    return target + source + struct.pack(">H", kind) + payload


def arp(operation, sender_mac, sender, target_mac, target):
    return (
        struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation)
        + sender_mac + socket.inet_aton(sender) + target_mac + socket.inet_aton(target)
    )  # fmt: skip


def netlink(kind, flags, body):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body


def attribute(kind, body):
    padded = body + b"\0" * (-len(body) % 4)
    return struct.pack("=HH", 4 + len(body), kind) + padded
