// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::crc::crc32c;
use proto_tests::proto::wire::{finish, flag, lane_op, op, syndrome, BadFrame, Header, Kind};
use proto_tests::proto::{FRAME_BYTES, MAX_MSG_BYTES, PAYLOAD_BYTES};

const FULL: u32 = PAYLOAD_BYTES as u32;

fn bytes(h: &Header) -> Vec<u8> {
    let mut b = vec![0; 64 + h.payload_len as usize];
    assert!(h.encode(&mut b));
    assert!(finish(&mut b, h.lane_seq, h.lane_limit));
    b
}

fn parse(h: &Header) -> Result<Header, BadFrame> {
    Header::parse(&bytes(h))
}

fn send() -> Header {
    Header {
        kind: Kind::Data,
        opcode: op::SEND,
        flags: flag::LAST,
        payload_len: 5,
        msg_len: 5,
        dst_qpn: 7,
        ..Header::default()
    }
}

/// Rewrites bytes of a good frame and repairs the CRC.
fn patched(h: &Header, at: usize, v: &[u8]) -> Result<Header, BadFrame> {
    let mut b = bytes(h);
    b[at..at + v.len()].copy_from_slice(v);
    b[8..12].fill(0);
    let crc = crc32c(&b[..64]);
    b[8..12].copy_from_slice(&crc.to_le_bytes());
    Header::parse(&b)
}

#[test]
fn every_field_has_its_place() {
    let h = Header {
        kind: Kind::Data,
        opcode: op::WRITE,
        flags: flag::LAST | flag::IMM | flag::ACK_VALID | flag::ACK_RSP | flag::ACK_REQ | flag::SOLICITED,
        payload_len: 3,
        tx_seq: 0x0201,
        dst_qpn: 0x00c3_b2a1,
        lane_seq: 0x1413_1211,
        lane_limit: 0x2423_2221,
        psn: 0x3433_3231,
        ack: 0x4443_4241,
        ack_tx_seq: 0x5251,
        src_tag: 0x6261,
        imm: 0x7473_7271,
        msn: 0x8483_8281,
        msg_off: 2 * FULL,
        msg_len: 2 * FULL + 3,
        rkey: 0xb4b3_b2b1,
        va: 0xc8c7_c6c5_c4c3_c2c1,
    };
    let b = bytes(&h);
    assert_eq!(Header::parse(&b), Ok(h));
    assert_eq!(&b[..8], &[1, 1, 2, 0b1100_1111, 3, 0, 1, 2]);
    let le = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
    let words = [h.dst_qpn, h.lane_seq, h.lane_limit, h.psn, h.ack, 0x6261_5251, h.imm, h.msn];
    for (i, w) in words.iter().enumerate() {
        assert_eq!(le(12 + 4 * i), *w, "word {i}");
    }
    assert_eq!((le(44), le(48), le(52)), (h.msg_off, h.msg_len, h.rkey));
    assert_eq!(b[56..64], h.va.to_le_bytes());
    let mut zeroed = b[..64].to_vec();
    zeroed[8..12].fill(0);
    assert_eq!(le(8), crc32c(&zeroed));
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let b = bytes(&send());
    for bit in 0..64 * 8 {
        let mut c = b.clone();
        c[bit / 8] ^= 1 << (bit % 8);
        assert!(Header::parse(&c).is_err(), "bit {bit}");
    }
}

#[test]
fn lengths() {
    let b = bytes(&send());
    for n in 0..64 {
        assert_eq!(Header::parse(&b[..n]), Err(BadFrame::Short));
    }
    assert_eq!(Header::parse(&b[..68]), Err(BadFrame::Length));
    let mut long = b.clone();
    long.push(0);
    assert_eq!(Header::parse(&long), Err(BadFrame::Length));
    long.resize(FRAME_BYTES + 1, 0);
    assert_eq!(Header::parse(&long), Err(BadFrame::Long));
    assert!(!send().encode(&mut [0; 63]));
    assert!(!finish(&mut [0; 63], 0, 0));
}

#[test]
fn unknown_numbers() {
    assert_eq!(patched(&send(), 0, &[2]), Err(BadFrame::Version));
    for kind in [0, 5, 255] {
        assert_eq!(patched(&send(), 1, &[kind]), Err(BadFrame::Kind));
    }
    for opcode in [0, 8, 255] {
        assert_eq!(patched(&send(), 2, &[opcode]), Err(BadFrame::Opcode));
    }
    assert_eq!(patched(&send(), 15, &[1]), Err(BadFrame::Reserved));
    let ack = Header { kind: Kind::Ack, flags: flag::ACK_VALID, ..Header::default() };
    assert_eq!(patched(&ack, 2, &[6]), Err(BadFrame::Opcode));
    for opcode in [0, 3] {
        assert_eq!(parse(&Header::lane(opcode)), Err(BadFrame::Opcode));
    }
}

#[test]
fn fragments_at_their_boundaries() {
    // msg_len, msg_off, payload, LAST, good?
    let table = [
        (0, 0, 0, true, true),
        (0, 0, 0, false, false),
        (1, 0, 1, true, true),
        (1, 0, 0, true, false),
        (FULL, 0, FULL, true, true),
        (FULL, 0, FULL, false, false),
        (FULL, FULL, 0, true, false),
        (FULL + 1, 0, FULL, false, true),
        (FULL + 1, 0, FULL, true, false),
        (FULL + 1, 0, FULL - 1, false, false),
        (FULL + 1, FULL, 1, true, true),
        (FULL + 1, FULL, 2, true, false),
        (FULL + 1, 1, FULL, true, false),
        (2 * FULL, FULL, FULL, true, true),
        (MAX_MSG_BYTES, 0, FULL, false, true),
        (MAX_MSG_BYTES, MAX_MSG_BYTES / FULL * FULL, MAX_MSG_BYTES % FULL, true, true),
        (MAX_MSG_BYTES + 1, 0, FULL, false, false),
        (u32::MAX, 0, FULL, false, false),
        (FULL, u32::MAX / FULL * FULL, 1, true, false),
    ];
    for (msg_len, msg_off, payload, last, good) in table {
        for (opcode, rsp) in [(op::SEND, 0), (op::WRITE, 0), (op::READ_RSP, flag::RSP)] {
            let h = Header {
                opcode,
                msg_len,
                msg_off,
                payload_len: payload as u16,
                flags: rsp | if last { flag::LAST } else { 0 },
                ..send()
            };
            let got = parse(&h);
            assert_eq!(got.is_ok(), good, "{opcode} {msg_len} {msg_off} {payload} {last}: {got:?}");
        }
    }
}

#[test]
fn single_frame_messages() {
    let one = |opcode, payload_len, msg_len| Header {
        opcode,
        payload_len,
        msg_len,
        flags: flag::LAST | if opcode == op::ATOMIC_RSP { flag::RSP } else { 0 },
        ..send()
    };
    let table = [
        (op::READ_REQ, 0, MAX_MSG_BYTES, true),
        (op::READ_REQ, 0, 0, true),
        (op::READ_REQ, 1, 1, false),
        (op::CMP_SWAP, 16, 8, true),
        (op::CMP_SWAP, 8, 8, false),
        (op::FETCH_ADD, 16, 8, true),
        (op::FETCH_ADD, 16, 16, false),
        (op::ATOMIC_RSP, 8, 8, true),
        (op::ATOMIC_RSP, 16, 8, false),
    ];
    for (opcode, payload, msg_len, good) in table {
        let h = one(opcode, payload, msg_len);
        assert_eq!(parse(&h).is_ok(), good, "{opcode} {payload} {msg_len}");
        let not_last = Header { flags: h.flags & !flag::LAST, ..h };
        assert_eq!(parse(&not_last), Err(BadFrame::Fields));
        assert_eq!(parse(&Header { msg_off: FULL, ..h }), Err(BadFrame::Fields));
    }
}

#[test]
fn flags_that_do_not_belong() {
    let with = |opcode, flags| parse(&Header { opcode, flags: flags | flag::LAST, ..send() });
    assert!(with(op::SEND, flag::IMM | flag::SOLICITED).is_ok());
    assert!(with(op::SEND, flag::INVALIDATE).is_ok());
    assert_eq!(with(op::SEND, flag::IMM | flag::INVALIDATE), Err(BadFrame::Fields));
    assert_eq!(with(op::WRITE, flag::INVALIDATE), Err(BadFrame::Fields));
    assert_eq!(with(op::SEND, flag::RSP), Err(BadFrame::Fields));
    assert_eq!(with(op::READ_RSP, 0), Err(BadFrame::Fields));
    let first = Header { flags: flag::IMM, payload_len: FULL as u16, msg_len: FULL + 1, ..send() };
    assert_eq!(parse(&first), Err(BadFrame::Fields), "IMM belongs to the last frame");
}

#[test]
fn acks() {
    let ack = |opcode, flags, payload_len, imm| {
        parse(&Header { kind: Kind::Ack, opcode, flags, payload_len, imm, ..Header::default() })
    };
    assert!(ack(syndrome::OK, flag::ACK_VALID, 32, 0).is_ok());
    assert_eq!(ack(syndrome::OK, flag::ACK_VALID, 33, 0), Err(BadFrame::Fields));
    assert_eq!(ack(syndrome::OK, 0, 0, 0), Err(BadFrame::Fields));
    assert_eq!(ack(syndrome::OK, flag::ACK_VALID | flag::ACK_REQ, 0, 0), Err(BadFrame::Fields));
    assert_eq!(ack(syndrome::OK, flag::ACK_VALID | flag::LAST, 0, 0), Err(BadFrame::Fields));
    assert!(ack(syndrome::RNR, flag::ACK_VALID, 0, 31).is_ok());
    assert_eq!(ack(syndrome::RNR, flag::ACK_VALID, 0, 32), Err(BadFrame::Fields));
    assert!(ack(syndrome::PROBE, flag::ACK_REQ | flag::RSP, 0, 0).is_ok());
    assert_eq!(ack(syndrome::PROBE, 0, 0, 0), Err(BadFrame::Fields));
}

#[test]
fn lane_frames() {
    for opcode in [lane_op::UPDATE, lane_op::PROBE] {
        let h = Header::lane(opcode);
        assert_eq!(parse(&h), Ok(h));
        assert!(!h.needs_credit());
        assert_eq!(parse(&Header { flags: flag::LAST, ..h }), Err(BadFrame::Fields));
        assert_eq!(parse(&Header { payload_len: 1, ..h }), Err(BadFrame::Fields));
        assert_eq!(parse(&Header { dst_qpn: 1, ..h }), Err(BadFrame::Fields));
    }
    assert!(send().needs_credit());
    assert!(Header { kind: Kind::Ud, ..send() }.needs_credit());
}

#[test]
fn random_bytes_never_panic_and_hardly_ever_pass() {
    let rng = &mut proto_tests::sim::rng::Rng::new(1);
    for _ in 0..20_000 {
        let n = rng.below(4200) as usize;
        let mut b: Vec<u8> = (0..n).map(|_| rng.word() as u8).collect();
        if n >= 64 {
            b[0] = 1;
            b[1] = rng.range(1, 4) as u8;
            b[2] = rng.below(9) as u8;
            finish(&mut b, 1, 2);
            if let Ok(h) = Header::parse(&b) {
                assert_eq!(h.payload_len as usize + 64, n);
                assert!(h.kind == Kind::Ud || h.msg_off <= h.msg_len || h.kind == Kind::Ack);
            }
        } else {
            assert_eq!(Header::parse(&b), Err(BadFrame::Short));
        }
    }
}
