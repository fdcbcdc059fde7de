//! The live view of a proxy, from its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failure::Failure;
use crate::table::{Align, Table};
use crate::{interrupt, output, terminal};

/// The time between two tables.
const EVERY: Duration = Duration::from_secs(1);
/// The interval at which a waiting thread checks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// Shows the connections of the proxy with this socket every second: on a terminal until Ctrl-C, otherwise once.
pub(super) fn show(path: &Path) -> Result<(), Failure> {
    let cancelled = interrupt::watch();
    loop {
        let state = read(path)?;
        if !terminal::is_there() {
            return output::print(&table(&state));
        }
        // Move to the first place, and clear to the end.
        output::print_part(&format!("\x1b[H\x1b[J{}", table(&state)))?;
        let last = Instant::now();
        while last.elapsed() < EVERY {
            if cancelled.load(Ordering::Relaxed) {
                return output::print("");
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn read(path: &Path) -> Result<Value, Failure> {
    let failed = |error: String| {
        Failure::Failed(format!("cannot read the state of a proxy from {}: {error}", path.display()))
    };
    let mut stream = UnixStream::connect(path).map_err(|error| failed(error.to_string()))?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| failed(error.to_string()))?;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").map_err(|error| failed(error.to_string()))?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|error| failed(error.to_string()))
}

fn table(state: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let size = |value: &Value| output::size(number(value));
    let empty = Vec::new();
    let connections = state["connections"].as_array().unwrap_or(&empty);
    let mut text = format!(
        "{} side, transport {}: {} connections\n",
        word(&state["side"]),
        word(&state["transport"]),
        connections.len()
    );
    let mut table = Table::new()
        .column("to", Align::Left)
        .optional("who", Align::Left, 3)
        .column("way", Align::Left)
        .optional("age", Align::Right, 2)
        .column("up", Align::Right)
        .column("down", Align::Right)
        .column("RTT", Align::Right)
        .optional("resent", Align::Right, 1);
    for one in connections {
        let way = if one["mptcp"] == true { String::new() } else { ", plain TCP".to_owned() };
        table.row(vec![
            word(&one["to"]),
            word(&one["who"]),
            word(&one["via"]) + &way,
            output::span(one["age_s"].as_f64().unwrap_or(0.0)),
            size(&one["up_bytes"]),
            size(&one["down_bytes"]),
            String::new(),
            String::new(),
        ]);
        for subflow in one["subflows"].as_array().unwrap_or(&empty) {
            let rtt = subflow["srtt_us"].as_f64();
            table.row(vec![
                format!("  {} > {}", word(&subflow["local"]), word(&subflow["remote"])),
                String::new(),
                String::new(),
                String::new(),
                size(&subflow["sent_bytes"]),
                size(&subflow["received_bytes"]),
                rtt.map_or("-".to_owned(), |us| output::span(us / 1e6)),
                size(&subflow["retransmitted_bytes"]),
            ]);
        }
    }
    if !connections.is_empty() {
        text.push_str(&table.render(terminal::width()));
    }
    for failure in state["last_failures"].as_array().unwrap_or(&empty) {
        text.push_str(&format!("failed: {}: {}\n", word(&failure["to"]), word(&failure["why"])));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_paths_below_it() {
        let state = serde_json::json!({
            "side": "client", "transport": "kernel",
            "connections": [{
                "to": "example.org:443", "who": "alice", "via": "server", "age_s": 1.5, "up_bytes": 10, "down_bytes": 2000,
                "mptcp": true,
                "subflows": [{
                    "local": "192.0.2.1:5", "remote": "192.0.2.2:8803", "srtt_us": 20000, "sent_bytes": 1,
                    "received_bytes": 2, "retransmitted_bytes": 0,
                }],
            }],
            "last_failures": [{ "t_s": 1.0, "to": "example.org:25", "why": "not authorized" }],
        });
        let shown = table(&state);
        assert!(shown.starts_with("client side, transport kernel: 1 connections\n"), "{shown}");
        assert!(shown.contains("  192.0.2.1:5 > 192.0.2.2:8803"), "{shown}");
        assert!(shown.ends_with("failed: example.org:25: not authorized\n"), "{shown}");
        assert!(!shown.contains("plain TCP"), "{shown}");
    }
}
