//! The settings of a link that its rate and its delay do not show, in words.

use anabranch_link::{
    Aqm, CrossTraffic, LinkConfig, MiddleboxConfig, Nat, Redraw, Redrawn, Strip, TokenBucket,
};
use anabranch_units::{Bytes, Duration, Time};

use super::graph::{Link, Path};

impl Link {
    /// Describes the features of the link other than a rate or a trace, a delay, losses and a drop-tail queue.
    pub fn remarks(&self) -> Vec<String> {
        let LinkConfig { aqm, policer, shaper, cross_traffic, redraws, repeat_after, .. } = &self.config;
        let mut remarks = Vec::new();
        if *aqm != Aqm::DropTail {
            remarks.push(format!("queue {aqm}"));
        }
        for (what, bucket) in [("policed", policer), ("shaped", shaper)] {
            if let Some(TokenBucket { rate, burst }) = bucket {
                remarks.push(format!("{what} to {rate} after {}", Bytes(*burst)));
            }
        }
        let interval = |from: Time, until: Time| {
            let end = until.armed().map_or(String::new(), |until| format!(" until {}", Duration(until.0)));
            let start =
                if from == Time::ZERO { String::new() } else { format!(" from {}", Duration(from.0)) };
            start + &end
        };
        for CrossTraffic { rate, from, until, packet: _ } in cross_traffic {
            remarks.push(format!("{rate} of cross traffic{}", interval(*from, *until)));
        }
        for Redraw { from, until, every, value, stream: _ } in redraws {
            let what = if matches!(value, Redrawn::Rate(_)) { "rate" } else { "delay" };
            remarks.push(format!("{what} redrawn every {every}{}", interval(*from, *until)));
        }
        remarks.extend(repeat_after.map(|after| format!("lost packets repeated after {after}")));
        remarks
    }
}

impl Path {
    /// Describes the middlebox of the path; nothing if it has none.
    pub fn remarks(&self) -> Vec<String> {
        let MiddleboxConfig { strip, mss_clamp, nat, overhead, proxy } = self.middlebox;
        let mut remarks = Vec::new();
        let stripped = match strip {
            Strip::Nothing => None,
            Strip::All => Some("all segments"),
            Strip::Syn => Some("the SYN"),
            Strip::SynAck => Some("the SYN/ACK"),
            Strip::Data => Some("everything after the handshake"),
        };
        remarks.extend(stripped.map(|from| format!("no Multipath TCP options on {from}")));
        if let Some(Nat { timeout, resets }) = nat {
            let answer = if resets { ", and resets them" } else { "" };
            remarks.push(format!("forgets connections after {timeout}{answer}"));
        }
        remarks.extend(mss_clamp.map(|mss| format!("MSS of at most {mss} B")));
        remarks.extend(proxy.map(|proxy| format!("a TCP proxy {} from the client", proxy.rtt)));
        remarks.extend((overhead > 0).then(|| format!("a tunnel that adds {overhead} B to each packet")));
        remarks
    }
}
