# SPDX-License-Identifier: GPL-2.0
"""Frames of the wire protocol, right or wrong on purpose (Documentation/wire.md, section 2)."""

import struct

HEADER = struct.Struct("<BBBBHHIIIIIIHHIIIIIQ")
FIELDS = ("version", "kind", "opcode", "flags", "payload_len", "tx_seq", "crc", "dst_qpn",
          "lane_seq", "lane_limit", "psn", "ack", "ack_tx_seq", "src_tag", "imm", "msn",
          "msg_off", "msg_len", "rkey", "va")
assert HEADER.size == 64

DATA, ACK, LANE, UD = 1, 2, 3, 4
SEND, WRITE, READ_REQ, READ_RSP = 1, 2, 3, 6
LAST, ACK_REQ, RSP, ACK_VALID = 1 << 0, 1 << 1, 1 << 5, 1 << 6


def crc32c(data):
    """CRC-32C (Castagnoli), bit by bit: these are a few hundred short frames."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def seal(header):
    """64 header bytes with the right CRC put in."""
    blank = header[:8] + bytes(4) + header[12:64]
    return blank[:8] + struct.pack("<I", crc32c(blank)) + blank[12:] + header[64:]


def frame(payload=b"", crc=None, **fields):
    """A frame that is right but for what the fields say; a SEND of one frame if they say nothing."""
    values = dict.fromkeys(FIELDS, 0)
    values.update(version=1, kind=DATA, opcode=SEND, flags=LAST, payload_len=len(payload),
                  msg_len=len(payload))
    values.update(fields)
    header = HEADER.pack(*(values[name] for name in FIELDS))
    if crc is not None:
        return header[:8] + struct.pack("<I", crc) + header[12:] + payload
    return seal(header) + payload
