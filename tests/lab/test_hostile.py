# SPDX-License-Identifier: GPL-2.0
"""Frames that no good peer sends, put on the cable; and a cable that spoils good ones."""

import random
import re

import pytest

import frames
from frames import ACK, DATA, LANE, LAST, WRITE, frame
from pairs import DEVICE, counters, data_rings, verify

REPORT = "/sys/kernel/debug/usb4_rdma/0-1"
SEED = 20240607
FUZZED = 600


@pytest.fixture(scope="module", name="rings")
def lane_rings(driver):
    """Numbers of host a's receive rings that are lanes: those that data comes through."""
    driver.run("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    return data_rings(driver)


def lane_counters(host):
    """The report of the cable, summed over its lanes: name -> number."""
    total = {}
    for name, value in re.findall(r"^lane\d+ (\w+) (\d+)$", host.read(REPORT), re.MULTILINE):
        total[name] = total.get(name, 0) + int(value)
    return total


def inject(lab, ring, data, sof=1, eof=2):
    """Puts a frame into a receive ring of host a, as if b had sent it."""
    lab.cable({"cmd": "inject", "host": "a", "hop": ring, "sof": sof, "eof": eof,
               "bytes": data.hex()})


def counted(lab, name, before, number):
    """Waits until a lane counter has grown by a number."""
    script = (f"[ $(awk '$2 == \"{name}\" {{ n += $3 }} END {{ print n + 0 }}' {REPORT}) "
              f"-ge {before + number} ]")
    lab.a.wait_until(script, 10)


# What is wrong, the frame, and the counter that must tell.
BAD = [
    ("empty", b"\0", "rx_bad_short"),
    ("truncated header", frame()[:63], "rx_bad_short"),
    ("other version", frame(version=2), "rx_bad_version"),
    ("wrong CRC", frame(crc=0x12345678), "rx_bad_crc"),
    ("zeroes", bytes(64), "rx_bad_version"),
    ("unknown kind", frame(kind=9), "rx_bad_kind"),
    ("kind 0", frame(kind=0), "rx_bad_kind"),
    ("unknown opcode", frame(opcode=99), "rx_bad_opcode"),
    ("unknown syndrome", frame(kind=ACK, opcode=77), "rx_bad_opcode"),
    ("length too long", frame(b"x" * 64, payload_len=65), "rx_bad_length"),
    ("length too short", frame(b"x" * 64, payload_len=63), "rx_bad_length"),
    ("QPN of 32 bits", frame(dst_qpn=0x7f000011), "rx_bad_reserved"),
    ("offset beyond the message", frame(b"x" * 8, msg_off=4032), "rx_bad_fields"),
    ("last frame that is not", frame(b"x" * 8, msg_len=100), "rx_bad_fields"),
    ("message too long", frame(flags=0, msg_len=(1 << 30) + 1), "rx_bad_fields"),
    ("middle frame too short", frame(b"x" * 8, flags=0, msg_len=9000), "rx_bad_fields"),
    ("unknown QPN", frame(b"x" * 8, dst_qpn=0xfffff0), "rx_unknown_qpn"),
    ("WRITE to an unknown QPN", frame(b"x" * 8, opcode=WRITE, dst_qpn=0xfffff0, rkey=1,
                                      va=4096), "rx_unknown_qpn"),
    ("ACK for an unknown QPN", frame(kind=ACK, opcode=0, flags=frames.ACK_VALID,
                                     dst_qpn=0xfffff0), "rx_unknown_qpn"),
    ("grant without sense", frame(kind=LANE, opcode=1, flags=0, lane_limit=0x40000000),
     "rx_bad_limit"),
]


@pytest.mark.parametrize("what,data,counter", BAD, ids=[case[0] for case in BAD])
def test_bad_frame_is_dropped_and_counted(driver, rings, what, data, counter):
    before = lane_counters(driver.a).get(counter, 0)
    for ring in rings:
        inject(driver, ring, data)
    counted(driver, counter, before, len(rings))


@pytest.fixture(scope="module", name="victim")
def connected_queue_pair(driver):
    """(QPN on a, QPN on b) of a connection that waits for receives."""
    command = f"u4r_hold -d {DEVICE} -i -q 1 -t 250"
    jobs = [driver.a.start(command, 300)]
    driver.a.wait_until("ss -Hltn | grep -q ':18517'", 30)
    jobs.append(driver.b.start(f"{command} {driver.addresses['a']}", 300))
    for job in jobs:
        job.wait_for("READY", 30)
    numbers = []
    for host in (driver.a, driver.b):
        shown = host.run(f"rdma resource show qp link {DEVICE}", check=True).out
        numbers.append(int(re.search(r"lqpn (\d+) .*u4r_hold", shown).group(1)))
    yield numbers
    for job in jobs:
        if job.running:
            job.kill()


WILD = [
    ("mistaken sender", dict(src_tag=0xfffe), "rx_wrong_sender"),
    ("wild PSN", dict(psn_offset=1 << 30), "rx_out_of_window"),
    ("PSN far behind", dict(psn_offset=-(1 << 30)), None),
    ("acknowledges what was never sent",
     dict(kind=ACK, opcode=0, flags=frames.ACK_VALID, ack=0x55555555), "rx_bad_ack"),
]


@pytest.mark.parametrize("what,fields,counter", WILD, ids=[case[0] for case in WILD])
def test_wild_numbers_hurt_no_queue_pair(driver, rings, victim, what, fields, counter):
    fields = dict(fields)
    offset = fields.pop("psn_offset", None)
    fields.setdefault("src_tag", victim[1] & 0xffff)
    if offset is not None:
        # The queue pair's own number is unknown here; 2^30 off any 24-bit one is wild.
        fields["psn"] = offset & 0xffffffff
    before = counters(driver.a)
    for ring in rings:
        inject(driver, ring, frame(dst_qpn=victim[0], **fields))
    if counter:
        driver.a.wait_until(f"[ $(cat /sys/class/infiniband/{DEVICE}/ports/1/hw_counters/"
                            f"{counter}) -gt {before[counter]} ]", 10)
    state = driver.a.run(f"rdma resource show qp link {DEVICE}", check=True).out
    assert re.search(rf"lqpn {victim[0]} .*state RTS", state), state
    after = counters(driver.a)
    assert after["rx_data"] == before["rx_data"]


def spoiled(random_source, lane_frame):
    """A frame of random bytes, or a good header with some bytes changed; mostly with a
    right CRC, so that it gets past that check."""
    choice = random_source.random()
    if choice < 0.3:
        data = random_source.randbytes(random_source.randrange(1, 4097))
        return frames.seal(data) if len(data) >= 64 and random_source.random() < 0.8 else data
    data = bytearray(lane_frame)
    for _ in range(random_source.randrange(1, 6)):
        data[random_source.randrange(len(data))] = random_source.randrange(256)
    # Lane numbers stay old: a peer that lies about them only starves itself.
    data[16:24] = bytes(8)
    return frames.seal(bytes(data))


def test_fuzzed_frames(driver, rings, victim):
    """Seeded nonsense, some of it addressed to a live queue pair: nothing falls over."""
    source = random.Random(SEED)
    print("seed", SEED)
    good = [frame(source.randbytes(200), dst_qpn=victim[0], src_tag=victim[1] & 0xffff,
                  flags=LAST, kind=kind, opcode=opcode)
            for kind in (DATA, ACK, LANE, 4) for opcode in range(1, 8)]
    for _ in range(FUZZED):
        inject(driver, source.choice(rings), spoiled(source, source.choice(good)))
    verify(driver, "-m 8 -q 4")


FAULTS = [
    dict(kind="crc", one_in=100), dict(kind="overrun", one_in=100),
    dict(kind="corrupt", one_in=100), dict(kind="drop", one_in=50),
    dict(kind="duplicate", one_in=50), dict(kind="delay", one_in=50, duration_us=2000),
    dict(kind="strand-rx", one_in=50), dict(kind="lost-tx", one_in=50),
    dict(kind="stall", one_in=200, duration_us=20000), dict(kind="edge-only", one_in=20),
]
# Faults after which a counter of the receiving host must have moved.
TELLS = {"crc": "rx_flagged", "overrun": "rx_flagged", "corrupt": "rx_bad_crc",
         "drop": "rx_lost"}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault["kind"] for fault in FAULTS])
def test_every_byte_over_a_bad_cable(driver, rings, fault):
    """RC hides what the cable does: drops, flags, spoiled headers, late and doubled frames."""
    before = lane_counters(driver.a)
    for ring in rings:
        driver.cable({"cmd": "fault", "host": "a", "hop": ring, "direction": "rx",
                      "seed": SEED + ring, **fault})
    try:
        verify(driver, "-m 12 -q 2 -w 60")
    finally:
        driver.cable({"cmd": "faults_clear"})
    tell = TELLS.get(fault["kind"])
    if tell:
        assert lane_counters(driver.a).get(tell, 0) > before.get(tell, 0)


def test_good_frames_flow_afterwards(driver):
    before = counters(driver.b)
    verify(driver, "-m 16 -q 4")
    assert counters(driver.b)["tx_retransmit"] == before["tx_retransmit"]
