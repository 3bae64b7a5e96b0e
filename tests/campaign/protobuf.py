# SPDX-License-Identifier: Apache-2.0
"""Protobuf's wire format, as far as the campaign needs it: messages by the numbers of their fields, without a package.
Source: protobuf.dev/programming-guides/encoding."""
import struct


def varint(value):
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field(number, value):
    """Of int and bool, float (32 bits), str, bytes (a message, too), or a list of integers, which is packed."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, list):
        value = b"".join(varint(entry) for entry in value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields):
    """Of pairs of number and value, in their order."""
    return b"".join(field(number, value) for number, value in fields)


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields_of(data):
    """The pairs of number and value: integers, and bytes of all else. ValueError or IndexError where it is no message."""
    found, at = [], 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at:at + size], at + size
        found.append((tag >> 3, value))
    if at != len(data):
        raise ValueError("a message that is cut off")
    return found
