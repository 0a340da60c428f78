// SPDX-License-Identifier: GPL-2.0
//! The commands of the control socket, from JSON to the model and back.

use std::sync::atomic::Ordering;

use serde_json::{json, Map, Value};

use super::engine::Engine;
use super::options::link_limits;
use crate::core::{CableId, Fabric, FaultKind, FaultSpec, HostId, LinkLimits};

/// Runs one command. The error says what is wrong with it, and then nothing was done.
pub fn run(engine: &Engine, request: &Value) -> Result<Value, String> {
    let request = request.as_object().ok_or("not a JSON object")?;
    let fields = Fields(request);
    match fields.text("cmd")? {
        "plug" => engine.with(|fabric, now| {
            fabric.plug(fields.cable(fabric)?, now);
            Ok(json!({}))
        }),
        "unplug" => engine.with(|fabric, now| {
            fabric.unplug(fields.cable(fabric)?, now);
            Ok(json!({}))
        }),
        "plugged" => engine.with(|fabric, _| {
            let cable = fields.cable(fabric)?;
            Ok(json!({"plugged": fabric.is_plugged(cable), "up": fabric.is_up(cable)}))
        }),
        "reset" => engine.with(|fabric, now| {
            let host = fields.host(fabric)?.ok_or("host is missing")?;
            fabric.host_reset(host, now);
            Ok(json!({}))
        }),
        "link" => engine.with(|fabric, _| {
            let cable = fields.cable(fabric)?;
            fabric.set_limits(cable, fields.limits(fabric.profile_rate_mbps(cable))?);
            Ok(json!({}))
        }),
        "fault" => engine.with(|fabric, _| {
            let id = fabric.add_fault(fields.fault(fabric)?).map_err(|error| error.to_string())?;
            Ok(json!({"id": id.0}))
        }),
        "faults_clear" => {
            engine.with(|fabric, _| fabric.clear_faults());
            Ok(json!({}))
        }
        "inject" => engine.with(|fabric, now| inject(&fields, fabric, now)),
        "counters" => Ok(counters(engine)),
        "shutdown" => Ok(json!({"stopping": true})),
        other => Err(format!("unknown command {other:?}")),
    }
}

fn inject(fields: &Fields<'_>, fabric: &mut Fabric, now: u64) -> Result<Value, String> {
    let host = fields.host(fabric)?.ok_or("host is missing")?;
    let hop = fields.number_within("hop", u64::from(u16::MAX))?.ok_or("hop is missing")? as u16;
    let sof = fields.number_within("sof", 15)?.unwrap_or(1) as u8;
    let eof = fields.number_within("eof", 15)?.unwrap_or(1) as u8;
    let bytes = from_hex(fields.text("bytes")?)?;
    fabric.inject(host, hop, sof, eof, &bytes, now).map_err(|error| error.to_string())?;
    Ok(json!({}))
}

/// The model's counters and the poller's.
fn counters(engine: &Engine) -> Value {
    let all = engine.with(|fabric, _| fabric.counters());
    let mut counters: Map<String, Value> =
        all.into_iter().map(|counter| (counter.name, json!(counter.value))).collect();
    let stats = &engine.stats;
    let own = [
        ("poller.polls", &stats.polls),
        ("poller.busy_polls", &stats.busy_polls),
        ("poller.sleeps", &stats.sleeps),
        ("poller.cpu_ns", &stats.cpu_ns),
    ];
    counters
        .extend(own.map(|(name, value)| (name.to_string(), json!(value.load(Ordering::Relaxed)))));
    json!({"counters": counters})
}

/// The fields of a request, with their types checked.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn text(&self, key: &str) -> Result<&'a str, String> {
        let value = self.0.get(key).ok_or_else(|| format!("{key} is missing"))?;
        value.as_str().ok_or_else(|| format!("{key} is not a string"))
    }

    fn optional_text(&self, key: &str) -> Result<Option<&'a str>, String> {
        self.present(key).map(|_| self.text(key)).transpose()
    }

    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        let wrong = || format!("{key} is not a number from 0 to 2^64 - 1");
        self.present(key).map(|value| value.as_u64().ok_or_else(wrong)).transpose()
    }

    fn number_within(&self, key: &str, max: u64) -> Result<Option<u64>, String> {
        match self.number(key)? {
            Some(value) if value > max => Err(format!("{key} is over {max}")),
            value => Ok(value),
        }
    }

    fn present(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn cable(&self, fabric: &Fabric) -> Result<CableId, String> {
        let name = self.text("cable")?;
        fabric.cable(name).ok_or_else(|| format!("no cable {name:?}"))
    }

    fn host(&self, fabric: &Fabric) -> Result<Option<HostId>, String> {
        let find = |name: &str| fabric.host(name).ok_or_else(|| format!("no host {name:?}"));
        self.optional_text("host")?.map(find).transpose()
    }

    /// The limits asked for, of a cable with this rate by its profiles.
    fn limits(&self, profile_rate_mbps: u64) -> Result<LinkLimits, String> {
        let latency_us = self.number("latency_us")?.unwrap_or(0);
        Ok(link_limits(self.number("rate_mbps")?, latency_us, profile_rate_mbps))
    }

    fn fault(&self, fabric: &Fabric) -> Result<FaultSpec, String> {
        let kind: FaultKind = self.text("kind")?.parse()?;
        let seed = self.number("seed")?.unwrap_or(1);
        let mut spec = FaultSpec::new(kind, seed, self.number("one_in")?.unwrap_or(1));
        spec.host = self.host(fabric)?;
        spec.hop = self.number_within("hop", u64::from(u16::MAX))?.map(|hop| hop as u16);
        spec.direction = self.optional_text("direction")?.map(str::parse).transpose()?;
        spec.count = self.number("count")?;
        if let Some(duration_us) = self.number("duration_us")? {
            spec.duration_ns = duration_us.saturating_mul(1000);
        }
        Ok(spec)
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "bytes is not pairs of hexadecimal digits".to_string();
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(wrong)?;
    Ok(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(request: Value) -> String {
        run(&Engine::new(Fabric::new(1), false), &request).unwrap_err()
    }

    #[test]
    fn mistakes_are_named() {
        let refusals = [
            (json!([1, 2]), "not a JSON object"),
            (json!({}), "cmd is missing"),
            (json!({"cmd": 5}), "cmd is not a string"),
            (json!({"cmd": "fly"}), "unknown command"),
            (json!({"cmd": "plug"}), "cable is missing"),
            (json!({"cmd": "plug", "cable": "nope"}), "no cable"),
            (json!({"cmd": "fault", "kind": "nope"}), "unknown fault kind"),
            (json!({"cmd": "fault", "kind": "drop", "seed": -1}), "seed is not a number"),
            (json!({"cmd": "fault", "kind": "drop", "host": "z"}), "no host"),
            (json!({"cmd": "fault", "kind": "drop", "hop": 70000}), "hop is over"),
            (json!({"cmd": "fault", "kind": "drop", "direction": "up"}), "unknown direction"),
            (json!({"cmd": "inject", "hop": 1}), "host is missing"),
            (json!({"cmd": "reset"}), "host is missing"),
            (json!({"cmd": "reset", "host": "z"}), "no host"),
        ];
        for (request, reason) in refusals {
            let error = refusal(request.clone());
            assert!(error.contains(reason), "{request}: {error}");
        }
    }

    #[test]
    fn a_fault_takes_all_its_fields() {
        let request = json!({"kind": "delay", "seed": 7, "one_in": 50, "hop": 3, "direction": "tx",
            "count": 2, "duration_us": 40, "host": null});
        let spec = Fields(request.as_object().unwrap()).fault(&Fabric::new(1)).unwrap();
        assert_eq!((spec.kind, spec.seed, spec.one_in), (FaultKind::Delay, 7, 50));
        assert_eq!((spec.hop, spec.count, spec.duration_ns), (Some(3), Some(2), 40_000));
        assert_eq!(spec.direction, Some(crate::core::Direction::Tx));
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(from_hex("00fFa5").unwrap(), [0x00, 0xff, 0xa5]);
        assert!(from_hex("0").is_err());
        assert!(from_hex("0g").is_err());
    }

    #[test]
    fn counters_name_the_poller() {
        let value = run(&Engine::new(Fabric::new(1), false), &json!({"cmd": "counters"})).unwrap();
        assert_eq!(value["counters"]["poller.polls"], 0);
    }
}
