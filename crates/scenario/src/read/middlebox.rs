//! Reads the middlebox of a path.

use anabranch_link::{MiddleboxConfig, Nat, Proxy, Strip};

use crate::text::base;
use crate::text::keys::rows;
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::Node;

rows! {
    /// The keys of a path that describe its middlebox.
    pub(super) ROWS, KEYS {
        "strip": Choice(&Strip::NAMES), "segments that lose their options of Multipath TCP; default none";
        "mss-clamp": Whole(88, 65_495), "largest MSS that a SYN may carry, in bytes; default any";
        "nat-timeout": Time, "idle time after which a NAT forgets a TCP connection; default never";
        "nat-resets": Bool, "whether packets to the server of a forgotten connection are answered by a reset; default false";
        "proxy": Time, "a TCP proxy that ends the client's connections and opens others: its round trip from the client; default none";
        "overhead": Size, "bytes that a tunnel adds to every packet, at most 1000 B; default 0";
    }
}

/// The largest overhead of a tunnel, in bytes.
const MOST_OVERHEAD: u64 = 1000;

/// Reads the middlebox of a path.
pub(super) fn read(path: &Reader<'_>) -> Result<MiddleboxConfig, Problem> {
    let strip = path.optional("strip", |node| node.choice("rule of a middlebox", &Strip::NAMES))?;
    let timeout = path.optional("nat-timeout", Node::positive_time)?;
    let resets = path.optional("nat-resets", Node::boolean)?;
    if let (Some(node), None) = (path.get("nat-resets"), timeout) {
        return Err(Problem::at(&node.span, "a path without a NAT resets nothing")
            .help("add for example `nat-timeout = \"30 s\"`, or remove `nat-resets`"));
    }
    Ok(MiddleboxConfig {
        strip: strip.map_or(Strip::Nothing, |at| Strip::ALL[at]),
        mss_clamp: path.optional("mss-clamp", |node| node.integer(88, 65_495))?.map(|mss| mss as u16),
        nat: timeout.map(|timeout| Nat { timeout, resets: resets.unwrap_or(false) }),
        overhead: path.optional("overhead", overhead)?.unwrap_or(0),
        proxy: path.optional("proxy", Node::positive_time)?.map(|rtt| Proxy { rtt }),
    })
}

/// Reads the overhead of a tunnel, in bytes.
fn overhead(node: &Node) -> Result<u32, Problem> {
    let size = node.size()?.get();
    if size > MOST_OVERHEAD {
        return Err(Problem::at(&node.span, format!("an overhead of {size} bytes is out of range")).help(
            format!("give at most {MOST_OVERHEAD} B for each packet, such as `60 B` for WireGuard over IPv4"),
        ));
    }
    Ok(size as u32)
}

/// Returns the canonical form of the settings that are not the default, by key.
pub(crate) fn canonical(config: &MiddleboxConfig) -> Vec<(&'static str, String)> {
    let MiddleboxConfig { strip, mss_clamp, nat, overhead, proxy } = config;
    let mut all = Vec::new();
    all.extend(strip.name().map(|name| ("strip", name.to_owned())));
    all.extend(mss_clamp.map(|mss| ("mss-clamp", mss.to_string())));
    if let Some(Nat { timeout, resets }) = nat {
        all.push(("nat-timeout", base::time(*timeout)));
        all.extend(resets.then(|| ("nat-resets", "true".to_owned())));
    }
    all.extend(proxy.map(|proxy| ("proxy", base::time(proxy.rtt))));
    all.extend((*overhead > 0).then(|| ("overhead", format!("{overhead} B"))));
    all
}
