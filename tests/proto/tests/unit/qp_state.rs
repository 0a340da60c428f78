// SPDX-License-Identifier: GPL-2.0
use proto_tests::proto::qp_state::*;
use ModifyError::*;
use QpState::*;

/// Attributes that are enough for a state.
fn full(state: QpState, kind: QpKind) -> QpAttrs {
    let rc = |v: u8| Some(v).filter(|_| kind == QpKind::Rc);
    let none = QpAttrs { state, ..QpAttrs::default() };
    match state {
        Rtr => QpAttrs {
            dest_qpn: Some(1),
            rq_psn: Some(2),
            max_dest_rd_atomic: rc(16),
            min_rnr_timer: rc(31),
            ..none
        },
        Rts => QpAttrs {
            sq_psn: Some(3),
            max_rd_atomic: rc(16),
            timeout: rc(31),
            retry_cnt: rc(7),
            rnr_retry: rc(7),
            ..none
        },
        _ => none,
    }
}

#[test]
fn every_transition() {
    let states = [Reset, Init, Rtr, Rts, Err];
    let allowed = [(Reset, Init), (Init, Init), (Init, Rtr), (Rtr, Rts)];
    for kind in [QpKind::Rc, QpKind::Uc] {
        for from in states {
            for to in states {
                let got = check(kind, from, &full(to, kind));
                let want = if matches!(to, Reset | Err) || allowed.contains(&(from, to)) {
                    Ok(())
                } else if (from, to) == (Rts, Rts) {
                    // Only min_rnr_timer may change there.
                    Result::Err(Range)
                } else {
                    Result::Err(Transition)
                };
                assert_eq!(got, want, "{kind:?} {from:?} -> {to:?}");
            }
        }
    }
    let change = QpAttrs { state: Rts, min_rnr_timer: Some(3), ..QpAttrs::default() };
    assert_eq!(check(QpKind::Rc, Rts, &change), Ok(()));
    assert_eq!(check(QpKind::Uc, Rts, &change), Result::Err(Range));
}

#[test]
fn each_missing_attribute_is_missed() {
    let drop: [fn(&mut QpAttrs); 9] = [
        |a| a.dest_qpn = None,
        |a| a.rq_psn = None,
        |a| a.max_dest_rd_atomic = None,
        |a| a.min_rnr_timer = None,
        |a| a.sq_psn = None,
        |a| a.max_rd_atomic = None,
        |a| a.timeout = None,
        |a| a.retry_cnt = None,
        |a| a.rnr_retry = None,
    ];
    for (i, d) in drop.iter().enumerate() {
        let (from, to) = if i < 4 { (Init, Rtr) } else { (Rtr, Rts) };
        let mut a = full(to, QpKind::Rc);
        d(&mut a);
        assert_eq!(check(QpKind::Rc, from, &a), Result::Err(Missing), "attribute {i}");
    }
}

#[test]
fn ranges() {
    let set: [(fn(&mut QpAttrs, u32), u32); 9] = [
        (|a, v| a.dest_qpn = Some(v), 0xff_ffff),
        (|a, v| a.rq_psn = Some(v), 0xff_ffff),
        (|a, v| a.max_dest_rd_atomic = Some(v as u8), 16),
        (|a, v| a.min_rnr_timer = Some(v as u8), 31),
        (|a, v| a.sq_psn = Some(v), 0xff_ffff),
        (|a, v| a.max_rd_atomic = Some(v as u8), 16),
        (|a, v| a.timeout = Some(v as u8), 31),
        (|a, v| a.retry_cnt = Some(v as u8), 7),
        (|a, v| a.rnr_retry = Some(v as u8), 7),
    ];
    for (i, (s, max)) in set.iter().enumerate() {
        let (from, to) = if i < 4 { (Init, Rtr) } else { (Rtr, Rts) };
        let mut a = full(to, QpKind::Rc);
        for (v, want) in [(0, Ok(())), (*max, Ok(())), (max + 1, Result::Err(Range))] {
            s(&mut a, v);
            assert_eq!(check(QpKind::Rc, from, &a), want, "attribute {i} = {v}");
        }
    }
}
