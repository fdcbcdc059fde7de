//! The canonical form as a text: its version, the format of a line, and the defaults that are not written.
//!
//! The defaults belong to the form: they stay as they are when a scenario's defaults change, since the hash of
//! an experiment must then change too. A new option gets a row here with its old behaviour; without a row it
//! is always written. Nothing else in this file changes without a new version.

use core::fmt::{Display, Write};

use anabranch_stack::config::Profile;

/// The first line.
const VERSION: &str = "anabranch scenario 1";

/// A text under construction.
pub(super) struct Canonical<'a> {
    pub(super) text: String,
    /// The profile of the condition that is written, on which some defaults depend.
    pub(super) profile: Profile,
    settings: &'a [Setting],
    parameters: &'a [Parameter],
}

impl<'a> Canonical<'a> {
    pub(super) fn new() -> Canonical<'a> {
        Canonical {
            text: format!("{VERSION}\n"),
            profile: Profile::default(),
            settings: SETTINGS,
            parameters: PARAMETERS,
        }
    }

    /// Returns an empty part of this form.
    pub(super) fn part(&self) -> Canonical<'a> {
        Canonical { text: String::new(), ..*self }
    }

    /// Returns a form with other defaults, for tests.
    #[cfg(test)]
    pub(super) fn with_defaults(settings: &'a [Setting], parameters: &'a [Parameter]) -> Canonical<'a> {
        Canonical { settings, parameters, ..Canonical::new() }
    }

    /// Writes a value without a default, or the beginning of a part.
    pub(super) fn always(&mut self, key: &str, value: impl Display) {
        // A name may contain a line break, which must not look like two lines.
        let value = value.to_string().replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "{key} = {value}");
    }

    /// Writes a value unless it is the default of its key.
    pub(super) fn line(&mut self, key: &str, value: impl Display) {
        let value = value.to_string();
        let default =
            self.settings.iter().find(|(known, ..)| *known == key).map(|(_, linux, ns3)| {
                match self.profile {
                    Profile::Linux => linux,
                    Profile::Ns3 => ns3,
                }
            });
        if default.is_none_or(|default| **default != value) {
            self.always(key, value);
        }
    }

    /// Writes settings by name, whatever the order of their declarations.
    pub(super) fn settings(&mut self, mut values: Vec<(String, String)>) {
        values.sort();
        values.iter().for_each(|(key, value)| self.line(key, value));
    }

    /// Writes parameters of the algorithm `name` under `key`, by name.
    pub(super) fn parameters(&mut self, key: &str, name: &str, mut values: Vec<(String, String)>) {
        values.sort();
        for (parameter, value) in &values {
            let own =
                |(of, known, default): &&Parameter| *of == name && known == parameter && default == value;
            if !self.parameters.iter().any(|row| own(&row)) {
                self.always(&format!("{key}.{parameter}"), value);
            }
        }
    }
}

/// A key, and its default in profile `linux` and in `ns3`.
pub(super) type Setting = (&'static str, &'static str, &'static str);

/// An algorithm, one of its parameters, and its default.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

// The keys of the experiment, of paths and of traffic first, then the settings of a connection.
#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    ("background.flows", "1", "1"),
    ("background.start", "0 ns", "0 ns"),
    ("beside.path", "none", "none"),
    ("change.link", "none", "none"),
    ("change.loss", "none", "none"),
    ("change.loss-up", "none", "none"),
    ("change.rate", "none", "none"),
    ("change.rtt", "none", "none"),
    ("congestion", "cubic_linux", "lia"),
    ("deadline", "60000000000 ns", "60000000000 ns"),
    ("initial", "0", "0"),
    ("ipv6", "false", "false"),
    ("link.ecn-threshold", "none", "none"),
    ("link.jitter.reorder", "false", "false"),
    ("link.loss", "0", "0"),
    ("link.loss-draws", "separate", "shared"),
    ("link.mtu-reports", "true", "true"),
    ("link.queue", "1 BDP", "1 BDP"),
    ("link.when-down", "drop", "drop"),
    ("path.backup", "false", "false"),
    ("path.ecn-threshold", "none", "none"),
    ("path.jitter.reorder", "false", "false"),
    ("path.loss", "0", "0"),
    ("path.loss-draws", "separate", "shared"),
    ("path.loss-up", "0", "0"),
    ("path.mtu-reports", "true", "true"),
    ("path.queue", "1 BDP", "1 BDP"),
    ("path.when-down", "drop", "drop"),
    ("phases.delay", "100000 ns", "100000 ns"),
    ("phases.jitter", "20000 ns", "20000 ns"),
    ("phases.join", "200000 ns", "200000 ns"),
    ("phases.start", "500000 ns", "500000 ns"),
    ("phases.traces", "true", "true"),
    ("topology.ecn-threshold", "none", "none"),
    ("topology.loss", "0", "0"),
    ("topology.queue", "1 BDP", "1 BDP"),
    ("topology.rtt", "0 ns", "0 ns"),
    ("traffic.direction", "download", "download"),
    ("traffic.duration", "10000000000 ns", "10000000000 ns"),
    ("traffic.flows", "1", "1"),
    ("traffic.max", "none", "none"),
    ("traffic.size", "web", "web"),
    ("traffic.size-known", "true", "true"),
    ("traffic.start", "0 ns", "0 ns"),

    ("ack.delay", "40000000 ns", "40000000 ns"),
    ("ack.drain", "true", "false"),
    ("ack.every", "2", "1"),
    ("ack.growth", "true", "false"),
    ("ack.push", "true", "false"),
    ("ack.quick", "16", "16"),
    ("byte-counting-limit", "none", "1"),
    ("checksums", "if-asked", "if-asked"),
    ("close-timeout", "60000000000 ns", "60000000000 ns"),
    ("dsn-width", "wide", "wide"),
    ("ecn", "false", "false"),
    ("fill-window", "true", "false"),
    ("fin-with-data", "true", "false"),
    ("idle-restart", "true", "true"),
    ("initial-ssthresh", "none", "none"),
    ("initial-window", "10", "1"),
    ("keepalive", "none", "none"),
    ("late-probes", "true", "false"),
    ("limited-transmit", "true", "true"),
    ("lisa", "false", "false"),
    ("loss-detection", "rack-tlp", "duplicate-acks"),
    ("max-subflows", "8", "8"),
    ("microsecond-timestamps", "false", "true"),
    ("mptcp-syns", "3", "3"),
    ("mss", "1420", "1400"),
    ("mtu", "1500", "1500"),
    ("nagle", "true", "false"),
    ("opportunistic", "off", "off"),
    ("pacing", "false", "false"),
    ("path-manager", "full_mesh", "full_mesh"),
    ("path-mtu", "icmp", "off"),
    ("prr", "true", "false"),
    ("race", "off", "off"),
    ("receive-buffer", "{ initial = 131072 B, max = 33554432 B }", "{ initial = 131072 B, max = 6291456 B }"),
    ("reinjection", "on-timeout", "on-timeout"),
    ("repeat-keys", "false", "true"),
    ("rto.backoff", "true", "false"),
    ("rto.initial", "1000000000 ns", "200000000 ns"),
    ("rto.max", "120000000000 ns", "120000000000 ns"),
    ("rto.max-timeouts", "15", "200"),
    ("rto.min", "200000000 ns", "200000000 ns"),
    ("rto.syn-retries", "6", "6"),
    ("sack", "true", "false"),
    ("scatter.dup-acks", "routes", "routes"),
    ("scatter.rate", "link/50", "link/50"),
    ("scatter.reordering-window", "round-trip", "round-trip"),
    ("scatter.switch", "off", "off"),
    ("scatter.volume", "100000", "100000"),
    ("send-buffer", "none", "16777216 B"),
    ("sequence-origin", "random", "random"),
    ("simultaneous", "false", "true"),
    ("small-queues", "none", "none"),
    ("subflow-send-buffer", "{ initial = 16384 B, max = 4194304 B }", "none"),
    ("time-wait", "60000000000 ns", "60000000000 ns"),
    ("timestamps", "true", "true"),
    ("tso-defer", "false", "false"),
    ("undo", "true", "false"),
    ("user-timeout", "924000000000 ns", "924000000000 ns"),
    ("whole-first-window", "true", "false"),
    ("window-memory", "true", "false"),
    ("withhold-acks", "false", "false"),
];

#[rustfmt::skip]
pub(super) const PARAMETERS: &[Parameter] = &[
    ("round_robin", "segments", "1"),
    ("round_robin", "cwnd-limited", "true"),
    ("dmptcp", "clip-at-ssthresh", "false"),
    ("dmptcp", "timeout-window", "one"),
    ("dmptcp", "whole-rounds-only", "false"),
    ("dmptcp", "increase", "1"),
    ("dmptcp", "coupled-increase", "false"),
    ("dmptcp", "criterion", "round-trip"),
    ("dmptcp", "threshold-floor", "true"),
    ("dmptcp", "survivors", "four"),
    ("dmptcp", "window-limit", "none"),
    ("dmptcp", "unknown-size", "buffered"),
    ("dmptcp", "filesize", "remaining"),
    ("dmptcp", "receive-window", "false"),
    ("dmptcp", "first-round", "next"),
    ("dmptcp", "kept-timeouts", "1"),
    ("dmptcp", "rate-cap", "false"),
    ("linux", "subflow-buffer", "2"),
    ("linux", "stale-loss-count", "4"),
    ("weighted_round_robin", "weights", ""),
    ("ll_rp", "mode", "retransmit-and-penalise"),
    ("ll_bm", "lambda", "3"),
    ("blest", "profile", "kernel"),
    ("blest", "lambda", "profile"),
    ("blest", "lambda-min", "profile"),
    ("blest", "lambda-max", "profile"),
    ("blest", "step-down", "profile"),
    ("blest", "step-up", "profile"),
    ("blest", "slow-start", "true"),
    ("ecf", "profile", "kernel"),
    ("ecf", "beta", "0.25"),
    ("daps", "round-delay", "4000000 ns"),
    ("daps", "smooth-cwnd", "true"),
    ("daps", "slow-start", "true"),
    ("daps", "retransmit", "true"),
    ("daps", "reorder", "false"),
    ("otias", "wait", "ceil-plus-one"),
    ("sttf", "alpha", "0.1"),
    ("sttf", "max-rounds", "0"),
    ("sttf", "rtt", "smoothed"),
    ("sttf", "clip-at-ssthresh", "false"),
    ("hsr", "rate", "window"),
    ("cp_radical", "probing", "dynamic"),
    ("cp_radical", "beta", "4"),
    ("cp_radical", "guard-max", "2000000000 ns"),
    ("cp_radical", "probes", "10"),
    ("cp_radical", "avail", "free"),
    ("cp_radical", "model", "paper"),
    ("cp_radical", "delay-constraint", "off"),
    ("cp_radical", "delay-constraint-time", "off"),
    ("cp_radical", "reset-pauses", "false"),
    ("cp_conservative", "probing", "static"),
    ("cp_conservative", "beta", "4"),
    ("cp_conservative", "guard-max", "2000000000 ns"),
    ("cp_conservative", "probes", "10"),
    ("cp_conservative", "avail", "free"),
    ("cp_conservative", "model", "paper"),
    ("cp_conservative", "delay-constraint", "off"),
    ("cp_conservative", "delay-constraint-time", "off"),
    ("cp_conservative", "reset-pauses", "false"),
    ("stms_c", "bandwidth", "window"),
    ("stms_a", "bandwidth", "window"),
    ("stms_a", "gain", "0.25"),
    ("stms_a", "interval", "rtt"),
    ("stms_a", "gap", "stms_c"),
    ("freeze", "gap", "50000000 ns"),
    ("freeze", "ratio", "none"),
    ("freeze", "remaining", "none"),
    ("anabranch", "abstain", "true"),
    ("anabranch", "margin", "0.25"),
    ("anabranch", "least", "30000"),
    ("anabranch", "gap", "true"),
    ("anabranch", "block", "true"),
    ("anabranch", "tail", "0.05"),
    ("anabranch", "rate", "true"),
    ("anabranch", "unknown", "4"),
    ("anabranch", "memory", "0.5"),
    ("backup", "priorities", ""),
    ("strict_priority", "priorities", ""),
    ("delay_threshold", "threshold", "100000000 ns"),
    ("cubic", "fast-convergence", "true"),
    ("cubic_hystart", "fast-convergence", "true"),
    ("vegas", "alpha", "2"),
    ("vegas", "beta", "4"),
    ("vegas", "gamma", "1"),
    ("vegas", "over-base", "false"),
    ("veno", "beta", "3"),
    ("bbr", "loss-threshold", "0.02"),
    ("bbr", "beta", "0.7"),
    ("bbr", "headroom", "0.15"),
    ("bbr", "probe-rtt-interval", "5000000000 ns"),
    ("bbr", "probe-rtt-duration", "200000000 ns"),
    ("bbr", "min-rtt-window", "10000000000 ns"),
    ("wvegas", "total-alpha", "10"),
    ("wvegas", "initial-alpha", "2"),
    ("wvegas", "gamma", "1"),
    ("sbd", "interval", "350000000 ns"),
    ("sbd", "n", "50"),
    ("sbd", "m", "30"),
    ("sbd", "f", "20"),
    ("sbd", "c-s", "0.1"),
    ("sbd", "c-h", "0.3"),
    ("sbd", "p-l", "0.1"),
    ("sbd", "p-f", "0.1"),
    ("sbd", "p-mad", "0.1"),
    ("sbd", "p-s", "0.15"),
    ("sbd", "p-d", "0.1"),
    ("sbd", "p-v", "0.7"),
    ("sbd", "remove-noise", "true"),
    ("sbd", "warm-up", "60"),
    ("sbd", "observations", "10"),
    ("sbd", "majority", "5"),
    ("dwc", "near", "1"),
    ("dwc", "delay-share", "0.75"),
    ("dwc", "delay-range", "5000000 ns"),
];
