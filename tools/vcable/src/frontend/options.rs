// SPDX-License-Identifier: GPL-2.0
//! The command line: `--control PATH --host KEY=VALUE,... --cable KEY=VALUE,... [--seed N] [--log FILE]`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use crate::core::{LinkLimits, Profile};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: vcable --control SOCKET --host HOST... --cable CABLE... [--seed N] [--log FILE]
  HOST:  name=NAME,profile=amd|tb4|tb5,socket=SOCKET[,mode=sync|sparse]
  CABLE: name=NAME,a=HOST:PORT,b=HOST:PORT[,rate_mbps=N][,latency_us=N][,plugged=true|false]
PORT is a lane adapter's number, 1 or 3. Without rate_mbps a cable has the rate that the two
profiles negotiate; 0 is no limit.";

/// How a host's index registers are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every access is trapped.
    Sync,
    /// The index pages are memory shared with the guest.
    Sparse,
}

/// A `--host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Its name.
    pub name: String,
    /// What router it has.
    pub profile: Profile,
    /// Where its QEMU connects.
    pub socket: PathBuf,
    /// How its index registers are served.
    pub mode: Mode,
}

/// A `--cable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableOptions {
    /// Its name.
    pub name: String,
    /// Host name and port of both ends.
    pub ends: [(String, u8); 2],
    /// Its rate each way in Mb/s: 0 is no limit, `None` what the profiles of both ends negotiate.
    pub rate_mbps: Option<u64>,
    /// Latency one way, in us.
    pub latency_us: u64,
    /// Whether it is plugged from the start.
    pub plugged: bool,
}

impl CableOptions {
    /// The limits for the model, given the rate that the profiles of both ends negotiate.
    pub fn limits(&self, profile_rate_mbps: u64) -> LinkLimits {
        link_limits(self.rate_mbps, self.latency_us, profile_rate_mbps)
    }
}

/// Limits for the model from what was asked for; see [`CableOptions::rate_mbps`].
pub fn link_limits(rate_mbps: Option<u64>, latency_us: u64, profile_rate_mbps: u64) -> LinkLimits {
    let rate_mbps = Some(rate_mbps.unwrap_or(profile_rate_mbps)).filter(|rate| *rate != 0);
    LinkLimits { rate_mbps, latency_ns: latency_us.saturating_mul(1000) }
}

/// The whole command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Path of the control socket.
    pub control: PathBuf,
    /// The hosts.
    pub hosts: Vec<HostOptions>,
    /// The cables.
    pub cables: Vec<CableOptions>,
    /// Seed of what no fault's own seed determines.
    pub seed: u64,
    /// The log's file; standard error where there is none.
    pub log: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments after the program's name. The error says what is wrong with them.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Options, String> {
        let mut args = args.into_iter();
        let (mut control, mut log, mut seed) = (None, None, 1);
        let (mut hosts, mut cables) = (Vec::new(), Vec::new());
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| format!("{option} wants a value"))?;
            let in_option = |error: String| format!("{option} {value}: {error}");
            match option.as_str() {
                "--control" => control = Some(PathBuf::from(value)),
                "--log" => log = Some(PathBuf::from(value)),
                "--seed" => seed = number(&value).map_err(in_option)?,
                "--host" => hosts.push(parse_host(&value).map_err(in_option)?),
                "--cable" => cables.push(parse_cable(&value).map_err(in_option)?),
                _ => return Err(format!("unknown option {option}")),
            }
        }
        let control = control.ok_or("--control is missing")?;
        if hosts.is_empty() {
            return Err("--host is missing".into());
        }
        Ok(Options { control, hosts, cables, seed, log })
    }
}

fn parse_host(text: &str) -> Result<HostOptions, String> {
    let mut pairs = Pairs::parse(text)?;
    let host = HostOptions {
        name: pairs.need("name")?,
        profile: pairs.need("profile")?.parse()?,
        socket: pairs.need("socket")?.into(),
        mode: match pairs.take("mode").as_deref() {
            None | Some("sync") => Mode::Sync,
            Some("sparse") => Mode::Sparse,
            Some(other) => return Err(format!("unknown mode {other:?} (sync, sparse)")),
        },
    };
    pairs.end()?;
    Ok(host)
}

fn parse_cable(text: &str) -> Result<CableOptions, String> {
    let mut pairs = Pairs::parse(text)?;
    let cable = CableOptions {
        name: pairs.need("name")?,
        ends: [parse_end(&pairs.need("a")?)?, parse_end(&pairs.need("b")?)?],
        rate_mbps: pairs.take("rate_mbps").map(|rate| number(&rate)).transpose()?,
        latency_us: pairs.take("latency_us").map_or(Ok(0), |us| number(&us))?,
        plugged: match pairs.take("plugged").as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(other) => return Err(format!("plugged is true or false, not {other:?}")),
        },
    };
    pairs.end()?;
    Ok(cable)
}

fn parse_end(text: &str) -> Result<(String, u8), String> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("{text:?} is not HOST:PORT"))?;
    Ok((host.into(), number(port)?))
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number in range"))
}

/// `KEY=VALUE` pairs separated by commas; each key once, each used once.
struct Pairs(BTreeMap<String, String>);

impl Pairs {
    fn parse(text: &str) -> Result<Pairs, String> {
        let mut pairs = BTreeMap::new();
        for pair in text.split(',') {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("{pair:?} is not KEY=VALUE"))?;
            if pairs.insert(key.to_string(), value.to_string()).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(Pairs(pairs))
    }

    fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    fn need(&mut self, key: &str) -> Result<String, String> {
        self.take(key).ok_or_else(|| format!("{key} is missing"))
    }

    fn end(self) -> Result<(), String> {
        self.0.keys().next().map_or(Ok(()), |key| Err(format!("unknown key {key}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_full_line() {
        let options = parse(
            "--control c.sock --host name=a,profile=amd,socket=a.sock,mode=sparse \
             --host name=b,profile=tb5,socket=b.sock --log l --seed 9 \
             --cable name=c0,a=a:1,b=b:3,rate_mbps=400,latency_us=5,plugged=false",
        )
        .unwrap();
        assert_eq!(options.seed, 9);
        assert_eq!(options.log, Some("l".into()));
        assert_eq!(options.hosts.len(), 2);
        assert_eq!((options.hosts[0].mode, options.hosts[1].mode), (Mode::Sparse, Mode::Sync));
        let cable = &options.cables[0];
        assert_eq!(cable.ends, [("a".into(), 1), ("b".into(), 3)]);
        assert!(!cable.plugged);
        assert_eq!(cable.limits(20_000), LinkLimits { rate_mbps: Some(400), latency_ns: 5000 });
    }

    #[test]
    fn the_profiles_may_limit_the_rate() {
        let cable = parse_cable("name=c,a=a:1,b=b:1").unwrap();
        assert!(cable.plugged);
        assert_eq!(cable.limits(20_000).rate_mbps, Some(20_000));
        let free = parse_cable("name=c,a=a:1,b=b:1,rate_mbps=0").unwrap();
        assert_eq!(free.limits(20_000), LinkLimits::default());
    }

    #[test]
    fn mistakes_are_named() {
        let refusals = [
            ("--host name=a,profile=amd,socket=s", "--control is missing"),
            ("--control c", "--host is missing"),
            ("--control", "wants a value"),
            ("--speed 3", "unknown option"),
            ("--host name=a,profile=xyz,socket=s", "unknown profile"),
            ("--host name=a,profile=amd", "socket is missing"),
            ("--host name=a,profile=amd,socket=s,mode=fast", "unknown mode"),
            ("--host name=a,name=b,profile=amd,socket=s", "given twice"),
            ("--host name=a,profile=amd,socket=s,colour=red", "unknown key colour"),
            ("--cable name=c,a=a,b=b:1", "not HOST:PORT"),
            ("--cable name=c,a=a:1,b=b:300", "not a number in range"),
            ("--seed -1", "not a number in range"),
        ];
        for (line, reason) in refusals {
            let error = parse(line).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
